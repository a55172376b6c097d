/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input as a template, or as the table of what memory is in one whose head is otherwise right;
 * where all is right the pages are read.
 */
#include "vmm/snapshot.h"

#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY	 (2ull << 20)
#define FILE_MAX (8ull << 20)
#define RUNS_MAX 32u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_runs(int fd, const struct snapshot_wanted *wanted, const uint8_t *data,
		       size_t size)
{
	uint32_t count = (uint32_t)(size / sizeof(struct snapshot_run));
	struct snapshot snapshot;

	if (count > RUNS_MAX)
		count = RUNS_MAX;
	snapshot_new(&snapshot, wanted, count);
	snapshot.header->mapped = count ? data[size - 1] % (count + 1) : 0;
	memcpy(snapshot.runs, data, count * sizeof(*snapshot.runs));
	/* Often in memory: what is left of the input has to be found. */
	for (uint32_t i = 0; i < count; i++) {
		snapshot.runs[i].gpa &= 2 * MEMORY - 1;
		snapshot.runs[i].size &= MEMORY - 1;
		if (size % 2) {
			snapshot.runs[i].gpa &= ~0xfffull;
			snapshot.runs[i].size &= ~0xfffull;
		}
	}
	snapshot_seal(&snapshot);
	if (snapshot.header->file_size < FILE_MAX &&
	    ftruncate(fd, (off_t)snapshot.header->file_size) == 0)
		(void)!pwrite(fd, snapshot.header, snapshot.header->head_size, 0);
	snapshot_release(&snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory_fd = -1, fd = -1;
	static struct guest_memory memory;
	const struct snapshot_wanted wanted = { .key = "key",
						.key_size = 3,
						.vcpus = 1,
						.devices = 1,
						.memory = &memory,
						.memory_size = MEMORY };
	struct snapshot snapshot;
	struct err err;

	if (memory_fd < 0) {
		memory_fd = guest_memory_create(MEMORY, &err);
		fd = memfd_create("template", MFD_CLOEXEC);
		guest_memory_map(&memory, memory_fd, MEMORY, &err);
	}
	if (size < 1 || ftruncate(fd, 0) < 0)
		return 0;
	if (data[0] & 1)
		write_runs(fd, &wanted, data + 1, size - 1);
	else if (pwrite(fd, data + 1, size - 1, 0) < 0)
		return 0;
	if (snapshot_read(&snapshot, fd, &wanted, &err) == 0)
		snapshot_read_pages(&snapshot, &memory, fd, &err);
	snapshot_release(&snapshot);
	return 0;
}
