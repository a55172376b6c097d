/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The split virtqueue against a driver that is right, and against one that attacks. */
#include "base/mem.h"
#include "virtio/virtqueue.h"

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMORY	0x200000ull
#define SIZE	8u
#define DESC	0x1000u
#define AVAIL	0x2000u
#define USED	0x3000u
#define TABLE	0x4000u
#define BUFFERS 0x10000u

#define EVENT_IDX (1ull << VIRTIO_RING_F_EVENT_IDX)
#define INDIRECT  (1ull << VIRTIO_RING_F_INDIRECT_DESC)

struct fixture {
	struct guest_memory memory;
	struct virtqueue queue;
	struct chain chain;
	struct err err;
};

static void *at(struct fixture *f, uint64_t gpa)
{
	return f->memory.slots[0].host + gpa;
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	int fd = memfd_create("guest", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, MEMORY) < 0 ||
	    guest_memory_map(&f->memory, fd, MEMORY, &f->err) < 0)
		return -1;
	close(fd);
	f->queue.state = (struct virtqueue_state){
		.size = SIZE, .ready = 1, .desc = DESC, .avail = AVAIL, .used = USED
	};
	*state = f;
	return virtqueue_activate(&f->queue, &f->memory, EVENT_IDX | INDIRECT, &f->err);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	guest_memory_unmap(&f->memory);
	free(f);
	return 0;
}

static void put_desc(struct fixture *f, uint64_t table, unsigned int i, uint64_t addr, uint32_t len,
		     uint16_t flags, uint16_t next)
{
	struct vring_desc *desc = at(f, table);

	desc[i] = (struct vring_desc){ .addr = addr, .len = len, .flags = flags, .next = next };
}

static void offer(struct fixture *f, uint16_t head)
{
	struct vring_avail *avail = at(f, AVAIL);

	avail->ring[avail->idx % SIZE] = head;
	avail->idx++;
}

static int pop(struct fixture *f)
{
	return virtqueue_pop(&f->queue, &f->chain, &f->err);
}

static void assert_refused(struct fixture *f, const char *why)
{
	assert_int_equal(pop(f), -1);
	if (!strstr(f->err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", f->err.text, why);
}

/* What was refused is as if it had been served. */
static void pass_over(struct fixture *f)
{
	f->queue.state.next_avail++;
	f->queue.state.next_used++;
}

static void serves_a_request(void **state)
{
	struct fixture *f = *state;
	struct vring_used *used = at(f, USED);
	char text[32];

	put_desc(f, DESC, 3, BUFFERS, 4, VRING_DESC_F_NEXT, 1);
	put_desc(f, DESC, 1, BUFFERS + 100, 3, VRING_DESC_F_NEXT, 6);
	put_desc(f, DESC, 6, BUFFERS + 200, 2, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, 0);
	put_desc(f, DESC, 0, BUFFERS + 300, 5, VRING_DESC_F_WRITE, 0);
	memcpy(at(f, BUFFERS), "abcd", 4);
	memcpy(at(f, BUFFERS + 100), "efg", 3);
	offer(f, 3);
	assert_int_equal(pop(f), 1);
	assert_int_equal(f->chain.head, 3);
	assert_int_equal(f->chain.readable_size, 7);
	assert_int_equal(f->chain.writable_size, 7);
	assert_int_equal(chain_read(&f->chain, text, 5), 5);
	assert_int_equal(chain_read(&f->chain, text + 5, 20), 2);
	assert_memory_equal(text, "abcdefg", 7);
	assert_int_equal(chain_read(&f->chain, text, 1), 0);
	assert_int_equal(chain_write(&f->chain, "1", 1), 1);
	assert_int_equal(chain_write(&f->chain, "234567890", 9), 6);
	assert_memory_equal(at(f, BUFFERS + 200), "12", 2);
	assert_memory_equal(at(f, BUFFERS + 300), "34567\0", 6);
	virtqueue_push(&f->queue, f->chain.head, 7);
	assert_int_equal(used->idx, 1);
	assert_int_equal(used->ring[0].id, 3);
	assert_int_equal(used->ring[0].len, 7);
	assert_int_equal(pop(f), 0);
}

static void rest_follows_the_cursor(void **state)
{
	struct fixture *f = *state;
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
	char header[5];

	put_desc(f, DESC, 0, BUFFERS, 4, VRING_DESC_F_NEXT, 1);
	put_desc(f, DESC, 1, BUFFERS + 100, 8, 0, 0);
	offer(f, 0);
	assert_int_equal(pop(f), 1);
	assert_int_equal(chain_rest_readable(&f->chain, iov), 2);
	assert_int_equal(chain_rest_writable(&f->chain, iov), 0);
	assert_int_equal(chain_read(&f->chain, header, 5), 5);
	assert_int_equal(chain_rest_readable(&f->chain, iov), 1);
	assert_ptr_equal(iov[0].iov_base, at(f, BUFFERS + 101));
	assert_int_equal(iov[0].iov_len, 7);
}

static void unpop_gives_the_same_again(void **state)
{
	struct fixture *f = *state;

	put_desc(f, DESC, 5, BUFFERS, 1, 0, 0);
	offer(f, 5);
	assert_int_equal(pop(f), 1);
	virtqueue_unpop(&f->queue);
	f->chain.head = 0;
	assert_int_equal(pop(f), 1);
	assert_int_equal(f->chain.head, 5);
}

static void serves_indirect_tables(void **state)
{
	struct fixture *f = *state;

	/* A direct buffer may stand in front of the table (2.7.5.3.2). */
	put_desc(f, DESC, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 1);
	put_desc(f, DESC, 1, TABLE, 32, VRING_DESC_F_INDIRECT, 0);
	put_desc(f, TABLE, 0, BUFFERS + 8, 2, VRING_DESC_F_NEXT, 1);
	put_desc(f, TABLE, 1, BUFFERS + 16, 4, VRING_DESC_F_WRITE, 0);
	offer(f, 0);
	assert_int_equal(pop(f), 1);
	assert_int_equal(f->chain.readable_size, 3);
	assert_int_equal(f->chain.writable_size, 4);
}

/* Found by a hostile guest: nothing says that such a table is aligned. */
static void serves_indirect_tables_anywhere(void **state)
{
	struct fixture *f = *state;
	const struct vring_desc table[] = { { BUFFERS + 8, 2, VRING_DESC_F_NEXT, 1 },
					    { BUFFERS + 16, 4, VRING_DESC_F_WRITE, 0 } };

	put_desc(f, DESC, 0, TABLE + 3, sizeof(table), VRING_DESC_F_INDIRECT, 0);
	memcpy(at(f, TABLE + 3), table, sizeof(table));
	offer(f, 0);
	assert_int_equal(pop(f), 1);
	assert_int_equal(f->chain.readable_size, 2);
	assert_int_equal(f->chain.writable_size, 4);
}

static void wraps_around(void **state)
{
	struct fixture *f = *state;
	struct vring_avail *avail = at(f, AVAIL);
	struct vring_used *used = at(f, USED);

	f->queue.state.next_avail = f->queue.state.next_used = 65534;
	f->queue.state.signalled_used = 65534;
	avail->idx = used->idx = 65534;
	for (unsigned int i = 0; i < SIZE; i++)
		put_desc(f, DESC, i, BUFFERS + i, 1, 0, 0);
	for (uint16_t i = 0; i < SIZE; i++)
		offer(f, i);
	for (uint16_t i = 0; i < SIZE; i++) {
		assert_int_equal(pop(f), 1);
		assert_int_equal(f->chain.head, i);
		virtqueue_push(&f->queue, f->chain.head, 0);
	}
	assert_int_equal(pop(f), 0);
	assert_int_equal(used->idx, 6);
}

static void suppresses_kicks_and_interrupts(void **state)
{
	struct fixture *f = *state;
	struct vring_avail *avail = at(f, AVAIL);
	struct vring_used *used = at(f, USED);
	uint16_t *avail_event = (uint16_t *)&used->ring[SIZE];
	uint16_t *used_event = &avail->ring[SIZE];

	for (unsigned int i = 0; i < SIZE; i++)
		put_desc(f, DESC, i, BUFFERS + i, 1, 0, 0);
	*avail_event = 77;
	offer(f, 0);
	offer(f, 1);
	offer(f, 2);
	assert_int_equal(pop(f), 1);
	assert_int_equal(*avail_event, 77); /* no kick wanted while there is work */
	*used_event = 1;
	virtqueue_push(&f->queue, 0, 0);
	assert_false(virtqueue_should_signal(&f->queue));
	assert_int_equal(pop(f), 1);
	virtqueue_push(&f->queue, 1, 0);
	assert_true(virtqueue_should_signal(&f->queue));
	assert_false(virtqueue_should_signal(&f->queue)); /* nothing new */
	assert_int_equal(pop(f), 1);
	assert_int_equal(pop(f), 0);
	assert_int_equal(*avail_event, 3);
}

static void honours_the_flag_without_event_idx(void **state)
{
	struct fixture *f = *state;
	struct vring_avail *avail = at(f, AVAIL);

	assert_int_equal(virtqueue_activate(&f->queue, &f->memory, 0, &f->err), 0);
	put_desc(f, DESC, 0, BUFFERS, 1, 0, 0);
	offer(f, 0);
	assert_int_equal(pop(f), 1);
	avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	virtqueue_push(&f->queue, 0, 0);
	assert_false(virtqueue_should_signal(&f->queue));
	avail->flags = 0;
	virtqueue_push(&f->queue, 0, 0);
	assert_true(virtqueue_should_signal(&f->queue));
}

static void does_nothing_when_inactive(void **state)
{
	struct fixture *f = *state;
	struct vring_used *used = at(f, USED);

	put_desc(f, DESC, 0, BUFFERS, 1, 0, 0);
	offer(f, 0);
	assert_int_equal(pop(f), 1);
	virtqueue_deactivate(&f->queue);
	virtqueue_push(&f->queue, 0, 1);
	assert_int_equal(used->idx, 0);
	assert_false(virtqueue_should_signal(&f->queue));
	assert_int_equal(pop(f), 0);
}

static void refuses_bad_rings(void **state)
{
	struct fixture *f = *state;
	static const struct virtqueue_state bad[] = {
		{ .size = 0, .desc = DESC, .avail = AVAIL, .used = USED },
		{ .size = 3, .desc = DESC, .avail = AVAIL, .used = USED },
		{ .size = 2 * VIRTQUEUE_SIZE_MAX, .desc = DESC, .avail = AVAIL, .used = USED },
		{ .size = SIZE, .desc = DESC + 8, .avail = AVAIL, .used = USED },
		{ .size = SIZE, .desc = DESC, .avail = AVAIL + 1, .used = USED },
		{ .size = SIZE, .desc = DESC, .avail = AVAIL, .used = USED + 2 },
		{ .size = SIZE, .desc = MEMORY - 16 * SIZE + 16, .avail = AVAIL, .used = USED },
		{ .size = SIZE, .desc = DESC, .avail = MEMORY - 4 - 2 * SIZE, .used = USED },
		{ .size = SIZE, .desc = DESC, .avail = AVAIL, .used = MEMORY - 4 - 8 * SIZE },
		{ .size = SIZE, .desc = UINT64_MAX - 15, .avail = AVAIL, .used = USED },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		f->queue.state = bad[i];
		if (virtqueue_activate(&f->queue, &f->memory, EVENT_IDX, &f->err) != -1)
			fail_msg("bad ring %zu was accepted", i);
		assert_int_equal(pop(f), 0);
	}
}

/* Attack 1: a descriptor that leaves the memory slot by a byte, zero length, overflow. */
static void refuses_bad_buffers(void **state)
{
	static const struct {
		uint64_t addr;
		uint32_t len;
	} bad[] = {
		{ MEMORY - 4, 5 },	    { MEMORY, 1 },	 { BUFFERS, 0 },
		{ UINT64_MAX - 1, 4 },	    { 0, UINT32_MAX },	 { UINT64_MAX, 1 },
		{ UINT64_MAX, UINT32_MAX }, { 0x100000000, 16 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put_desc(f, DESC, 0, bad[i].addr, bad[i].len, VRING_DESC_F_WRITE, 0);
		offer(f, 0);
		assert_refused(f, "not guest memory");
		pass_over(f);
	}
	put_desc(f, DESC, 0, MEMORY - 4, 4, VRING_DESC_F_WRITE, 0);
	offer(f, 0);
	assert_int_equal(pop(f), 1);
}

/* Attack 11: the available index jumping, loops, heads and links out of range. */
static void refuses_an_index_that_jumps(void **state)
{
	struct fixture *f = *state;
	struct vring_avail *avail = at(f, AVAIL);

	avail->idx = SIZE + 1;
	assert_refused(f, "jumped by 9 of 8");
	avail->idx = 65535;
	assert_refused(f, "jumped");
	/* With those that have not come back, too: devices have no room for more. */
	put_desc(f, DESC, 0, BUFFERS, 4, VRING_DESC_F_WRITE, 0);
	avail->idx = SIZE;
	for (unsigned int i = 0; i < SIZE; i++)
		assert_int_equal(pop(f), 1);
	avail->idx++;
	assert_refused(f, "jumped by 1 of 8, while 8 are being served");
	virtqueue_push(&f->queue, 0, 4);
	assert_int_equal(pop(f), 1);
}

static void refuses_bad_links(void **state)
{
	struct fixture *f = *state;

	offer(f, SIZE);
	assert_refused(f, "descriptor 8 of 8");
	pass_over(f);
	put_desc(f, DESC, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 65535);
	offer(f, 0);
	assert_refused(f, "descriptor 65535 of 8");
	pass_over(f);
	put_desc(f, DESC, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 0);
	offer(f, 0);
	assert_refused(f, "loop");
	pass_over(f);
	put_desc(f, DESC, 0, BUFFERS, 1, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, 1);
	put_desc(f, DESC, 1, BUFFERS, 1, 0, 0);
	offer(f, 0);
	assert_refused(f, "readable buffer after a writable one");
}

static void refuses_bad_indirect_tables(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint64_t addr;
		uint32_t len;
		uint16_t flags;
		const char *why;
	} bad[] = {
		{ TABLE, 0, 0, "not guest memory" },
		{ TABLE, 17, 0, "table of 17 bytes" },
		{ TABLE, 16 * (SIZE + 1), 0, "table of 144 bytes" },
		{ TABLE, 0xfffffff0, 0, "table of" },
		{ MEMORY - 16, 32, 0, "not guest memory" },
		{ UINT64_MAX - 15, 32, 0, "not guest memory" },
		{ TABLE, 32, VRING_DESC_F_NEXT, "where none may be" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put_desc(f, DESC, 0, bad[i].addr, bad[i].len,
			 (uint16_t)(bad[i].flags | VRING_DESC_F_INDIRECT), 0);
		offer(f, 0);
		assert_refused(f, bad[i].why);
		pass_over(f);
	}
	put_desc(f, DESC, 0, TABLE, 32, VRING_DESC_F_INDIRECT, 0);
	put_desc(f, TABLE, 0, TABLE, 32, VRING_DESC_F_INDIRECT, 0); /* a table in a table */
	offer(f, 0);
	assert_refused(f, "where none may be");
	pass_over(f);
	put_desc(f, TABLE, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 2); /* leads out of the table */
	offer(f, 0);
	assert_refused(f, "descriptor 2 of 2");
	pass_over(f);
	put_desc(f, TABLE, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 0);
	offer(f, 0);
	assert_refused(f, "loop");
	pass_over(f);
	/* Seven direct ones and a table of two: longer than the queue. */
	for (uint16_t i = 0; i < 7; i++)
		put_desc(f, DESC, i, BUFFERS, 1, VRING_DESC_F_NEXT, (uint16_t)(i + 1));
	put_desc(f, DESC, 7, TABLE, 32, VRING_DESC_F_INDIRECT, 0);
	put_desc(f, TABLE, 0, BUFFERS, 1, VRING_DESC_F_NEXT, 1);
	put_desc(f, TABLE, 1, BUFFERS, 1, 0, 0);
	offer(f, 0);
	assert_refused(f, "longer than the queue");
	pass_over(f);
	assert_int_equal(virtqueue_activate(&f->queue, &f->memory, 0, &f->err), 0);
	put_desc(f, DESC, 0, TABLE, 32, VRING_DESC_F_INDIRECT, 0);
	offer(f, 0);
	assert_refused(f, "where none may be"); /* not negotiated */
}

static void refuses_four_gigabytes(void **state)
{
	struct fixture *f = *state;
	struct guest_memory big = { .count = 1 };

	/* A slot of 3 GiB that is never touched. */
	big.slots[0] = f->memory.slots[0];
	big.slots[0].size = 0xc0000000;
	assert_int_equal(virtqueue_activate(&f->queue, &big, 0, &f->err), 0);
	put_desc(f, DESC, 0, 0, 0xb0000000, VRING_DESC_F_NEXT, 1);
	put_desc(f, DESC, 1, 0, 0xb0000000, 0, 0);
	offer(f, 0);
	assert_refused(f, "4 GiB");
}

static void memory_ranges(void **state)
{
	struct guest_memory memory = { .count = 2 };
	uint8_t low, high;

	memory.slots[0] = (struct guest_slot){ .gpa = 0, .size = 0x1000, .host = &low };
	memory.slots[1] =
		(struct guest_slot){ .gpa = GUEST_MMIO_HOLE_END, .size = 0x1000, .host = &high };
	assert_ptr_equal(guest_range(&memory, 0, 0x1000), &low);
	assert_null(guest_range(&memory, 0, 0x1001));
	assert_null(guest_range(&memory, 0xfff, 2));
	assert_non_null(guest_range(&memory, 0xfff, 1));
	assert_null(guest_range(&memory, 0x1000, 1));
	assert_null(guest_range(&memory, GUEST_MMIO_HOLE_END - 1, 2));
	assert_ptr_equal(guest_range(&memory, GUEST_MMIO_HOLE_END, 1), &high);
	assert_null(guest_range(&memory, GUEST_MMIO_HOLE_END, UINT64_MAX));
	assert_null(guest_range(&memory, UINT64_MAX, UINT64_MAX));
	assert_null(guest_range(&memory, 0, 0));
}

static void memory_has_a_hole(void **state)
{
	struct guest_memory memory;
	struct err err;
	uint64_t size = GUEST_MMIO_HOLE_START + 0x400000;
	int fd = memfd_create("guest", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(guest_memory_map(&memory, fd, size, &err), 0);
	assert_int_equal(memory.count, 2);
	assert_int_equal(memory.slots[1].gpa, GUEST_MMIO_HOLE_END);
	assert_int_equal(memory.slots[1].size, 0x400000);
	*(char *)guest_range(&memory, GUEST_MMIO_HOLE_END, 1) = 'x';
	assert_int_equal(pread(fd, &(char){ 0 }, 1, GUEST_MMIO_HOLE_START), 1);
	guest_memory_unmap(&memory);
	assert_int_equal(guest_memory_map(&memory, fd, 100, &err), -1);
	assert_int_equal(guest_memory_map(&memory, -1, 0x1000, &err), -1);
	close(fd);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(serves_a_request),
		TEST(rest_follows_the_cursor),
		TEST(unpop_gives_the_same_again),
		TEST(serves_indirect_tables),
		TEST(serves_indirect_tables_anywhere),
		TEST(wraps_around),
		TEST(suppresses_kicks_and_interrupts),
		TEST(honours_the_flag_without_event_idx),
		TEST(does_nothing_when_inactive),
		TEST(refuses_bad_rings),
		TEST(refuses_bad_buffers),
		TEST(refuses_an_index_that_jumps),
		TEST(refuses_bad_links),
		TEST(refuses_bad_indirect_tables),
		TEST(refuses_four_gigabytes),
		cmocka_unit_test(memory_ranges),
		cmocka_unit_test(memory_has_a_hole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
