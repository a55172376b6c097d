/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Snapshots as files: pages that come back, and heads that are damaged, cut off or of another
 * machine. */
#include "base/fd.h"
#include "vmm/snapshot.h"
#include "vmm/vmm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define MEMORY	(8ull << 20)
#define PAGE	4096ull
#define VCPUS	2u
#define DEVICES 3u

struct fixture {
	struct guest_memory memory;
	int memory_fd, fd;
	struct snapshot_wanted wanted;
	struct snapshot snapshot;
	uint64_t head_size;
	struct err err;
};

static void write_head(struct fixture *f)
{
	assert_int_equal(pwrite(f->fd, f->snapshot.header, f->head_size, 0), (ssize_t)f->head_size);
}

/* Saves the memory that there is. */
static void save(struct fixture *f, const struct snapshot_run *mapped)
{
	_cleanup_free_ struct snapshot_run *runs = NULL;
	uint32_t count = snapshot_find_pages(&f->memory, f->memory_fd, mapped, mapped->size ? 1 : 0,
					     &runs, &f->err);

	assert_int_not_equal(count, 0);
	snapshot_new(&f->snapshot, &f->wanted, count);
	memcpy(f->snapshot.runs, runs, count * sizeof(*runs));
	f->snapshot.header->mapped = mapped->size ? 1 : 0;
	memset(f->snapshot.vcpus, 0x5a, VCPUS * sizeof(*f->snapshot.vcpus));
	f->snapshot.devices[DEVICES - 1].type = 77;
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(snapshot_write_pages(&f->snapshot, &f->memory, f->fd, &f->err), 0);
	assert_false(vmm_is_template(f->fd));
	snapshot_seal(&f->snapshot);
	f->head_size = f->snapshot.header->head_size;
	write_head(f);
	assert_true(vmm_is_template(f->fd));
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->memory_fd = guest_memory_create(MEMORY, &f->err);
	f->fd = memfd_create("template", MFD_CLOEXEC);
	if (guest_memory_map(&f->memory, f->memory_fd, MEMORY, &f->err) < 0)
		return -1;
	f->wanted = (struct snapshot_wanted){ .key = "a key",
					      .key_size = 5,
					      .vcpus = VCPUS,
					      .devices = DEVICES,
					      .memory = &f->memory,
					      .memory_size = MEMORY };
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	snapshot_release(&f->snapshot);
	guest_memory_unmap(&f->memory);
	close(f->memory_fd);
	close(f->fd);
	free(f);
	return 0;
}

static const struct snapshot_run none;

static void assert_refused(struct fixture *f, const char *why)
{
	struct snapshot read;

	assert_int_equal(snapshot_read(&read, f->fd, &f->wanted, &f->err), -1);
	if (!strstr(f->err.text, why))
		fail_msg("refused for another reason: %s", f->err.text);
	snapshot_release(&read);
}

static void brings_memory_back(void **state)
{
	struct fixture *f = *state;
	uint8_t *memory = f->memory.slots[0].host;
	struct snapshot read;

	memory[5] = 1;		    /* the first page, ... */
	memory[3 * PAGE + 100] = 2; /* ... one behind a small gap, ... */
	memset(memory + MEMORY / 2, 3, 40 * PAGE);
	memory[MEMORY - 1] = 4; /* ... and the last */
	save(f, &none);
	assert_int_equal(f->snapshot.header->runs, 3);
	assert_int_equal(guest_memory_clear(f->memory_fd, &f->err), 0);
	assert_int_equal(memory[5], 0);
	assert_int_equal(snapshot_read(&read, f->fd, &f->wanted, &f->err), 0);
	assert_int_equal(snapshot_read_pages(&read, &f->memory, f->fd, &f->err), 0);
	assert_int_equal(memory[5], 1);
	assert_int_equal(memory[3 * PAGE + 100], 2);
	assert_int_equal(memory[MEMORY / 2], 3);
	assert_int_equal(memory[MEMORY / 2 + 40 * PAGE - 1], 3);
	assert_int_equal(memory[MEMORY / 2 + 40 * PAGE], 0);
	assert_int_equal(memory[MEMORY - 1], 4);
	assert_int_equal(read.devices[DEVICES - 1].type, 77);
	assert_int_equal(read.vcpus[1].msr_count, 0x5a5a5a5a);
	snapshot_release(&read);
}

/* What is mapped over the memory, as a kernel's padding is, is not in the memory's file. */
static void takes_what_is_mapped_over_it(void **state)
{
	struct fixture *f = *state;
	const struct snapshot_run also = { 2 * PAGE, 2 * PAGE };
	uint8_t *memory = f->memory.slots[0].host, byte;
	struct snapshot read;

	assert_ptr_not_equal(mmap(memory + also.gpa, also.size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			     MAP_FAILED);
	memory[3 * PAGE] = 9;
	memory[4 * PAGE] = 10;
	save(f, &also);
	assert_int_equal(f->snapshot.header->runs, 2);
	assert_int_equal(f->snapshot.runs[0].gpa, 2 * PAGE);
	assert_int_equal(f->snapshot.runs[0].size, 2 * PAGE);
	assert_int_equal(f->snapshot.runs[1].gpa, 4 * PAGE);
	memory[2 * PAGE] = memory[3 * PAGE] = memory[4 * PAGE] = 1;
	assert_int_equal(snapshot_read(&read, f->fd, &f->wanted, &f->err), 0);
	assert_int_equal(snapshot_read_pages(&read, &f->memory, f->fd, &f->err), 0);
	assert_int_equal(memory[2 * PAGE], 0);
	assert_int_equal(memory[3 * PAGE], 9);
	assert_int_equal(memory[4 * PAGE], 10);
	memory[3 * PAGE] = 1; /* its own from now on */
	assert_int_equal(pread(f->fd, &byte, 1, (off_t)(f->head_size + PAGE)), 1);
	assert_int_equal(byte, 9);
	snapshot_release(&read);
}

static void refuses_other_machines(void **state)
{
	struct fixture *f = *state;

	memset(f->memory.slots[0].host, 1, PAGE);
	save(f, &none);
	f->wanted.key = "b key";
	assert_refused(f, "another machine");
	f->wanted.key_size = 4;
	assert_refused(f, "another machine");
	f->wanted.key = "a key";
	f->wanted.key_size = 5;
	f->wanted.vcpus++;
	assert_refused(f, "another machine");
	f->wanted.vcpus--;
	f->wanted.devices--;
	assert_refused(f, "another machine");
	f->wanted.devices++;
	f->wanted.memory_size *= 2;
	assert_refused(f, "another machine");
}

/* Each byte of the head counts. */
static void finds_damage(void **state)
{
	struct fixture *f = *state;
	uint64_t size;

	memset(f->memory.slots[0].host, 1, 4 * PAGE);
	save(f, &none);
	size = f->head_size;
	for (uint64_t at = 0; at < size; at += at < 256 ? 1 : 97) {
		uint8_t *byte = (uint8_t *)f->snapshot.header + at;

		*byte ^= 0x10;
		write_head(f);
		assert_refused(f, "");
		*byte ^= 0x10;
	}
	write_head(f);
	for (uint64_t cut = 1; cut <= size + PAGE; cut += 1234) {
		assert_int_equal(ftruncate(f->fd, (off_t)(size + 4 * PAGE - cut)), 0);
		assert_refused(f, "");
	}
	write_head(f);
	assert_int_equal(ftruncate(f->fd, (off_t)(size + 5 * PAGE)), 0);
	assert_refused(f, "not whole");
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_refused(f, "truncated");
}

/* Sealed as a true one is, so that only the checks of what is said are left. */
static void refuses_runs_outside_of_memory(void **state)
{
	static const struct snapshot_run bad[] = {
		{ MEMORY, PAGE },
		{ MEMORY - PAGE, 2 * PAGE },
		{ 1, PAGE },
		{ 0, 100 },
		{ 0, 0 },
		{ UINT64_MAX - PAGE + 1, PAGE },
		{ 0, UINT64_MAX & -PAGE },
		{ 0, MEMORY + PAGE },
	};
	struct fixture *f = *state;

	memset(f->memory.slots[0].host, 1, PAGE);
	save(f, &none);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		f->snapshot.runs[0] = bad[i];
		snapshot_seal(&f->snapshot);
		write_head(f);
		assert_refused(f, "does not fit");
	}
}

static void refuses_memory_that_is_empty(void **state)
{
	struct fixture *f = *state;
	struct snapshot_run *runs;

	assert_int_equal(snapshot_find_pages(&f->memory, f->memory_fd, &none, 0, &runs, &f->err),
			 0);
	free(runs);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(brings_memory_back),
		TEST(takes_what_is_mapped_over_it),
		TEST(refuses_other_machines),
		TEST(finds_damage),
		TEST(refuses_runs_outside_of_memory),
		TEST(refuses_memory_that_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
