/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the balloon gives back to the host, by the blocks of the memory file, and what it does not.
 */
#include "base/fd.h"
#include "vmm/balloon.h"

#include <linux/virtio_balloon.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cmocka.h>

#define PAGE	  4096u
#define MEMORY	  (64u * PAGE)
#define SIZE	  32u
#define DESC	  0x0u
#define AVAIL	  0x1000u
#define USED	  0x2000u
#define RINGS	  3u /* pages */
#define INFLATE	  0u
#define REPORTING 2u

struct fixture {
	struct guest_memory memory;
	struct device device;
	int fd;
	unsigned int signals;
	uint16_t offered;
	struct err err;
};

static void count_signal(struct device *device)
{
	((struct fixture *)device->transport_data)->signals++;
}

static const struct device_transport transport = { .signal = count_signal };

static uint8_t *at(struct fixture *f, uint64_t gpa)
{
	return f->memory.slots[0].host + gpa;
}

static void use_queue(struct fixture *f, unsigned int index)
{
	struct virtqueue *queue = &f->device.queues[index];

	queue->state = (struct virtqueue_state){
		.size = SIZE, .ready = 1, .desc = DESC, .avail = AVAIL, .used = USED
	};
	assert_int_equal(virtqueue_activate(queue, &f->memory, 0, &f->err), 0);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->fd = memfd_create("guest", MFD_CLOEXEC);
	if (f->fd < 0 || ftruncate(f->fd, MEMORY) < 0 ||
	    guest_memory_map(&f->memory, f->fd, MEMORY, &f->err) < 0)
		return -1;
	balloon_init(&f->device);
	f->device.transport = &transport;
	f->device.transport_data = f;
	for (unsigned int i = 0; i < f->device.ops->queues; i++)
		f->device.kick_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memset(at(f, 0), 0x5a, MEMORY);
	memset(at(f, 0), 0, RINGS * PAGE);
	use_queue(f, REPORTING);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (unsigned int i = 0; i < f->device.ops->queues; i++)
		close(f->device.kick_fds[i]);
	guest_memory_unmap(&f->memory);
	close(f->fd);
	free(f);
	return 0;
}

static unsigned int pages(const struct fixture *f)
{
	struct stat st;

	assert_int_equal(fstat(f->fd, &st), 0);
	return (unsigned int)(st.st_blocks / (PAGE / 512));
}

/* A request of count parts, in descriptors of their own from first on. */
static void offer(struct fixture *f, uint16_t first, const uint64_t (*parts)[2], uint16_t count)
{
	struct vring_desc *desc = (void *)at(f, DESC);
	struct vring_avail *avail = (void *)at(f, AVAIL);

	for (uint16_t i = 0; i < count; i++)
		desc[first + i] = (struct vring_desc){
			.addr = parts[i][0],
			.len = (uint32_t)parts[i][1],
			.flags = VRING_DESC_F_WRITE | (i + 1 < count ? VRING_DESC_F_NEXT : 0),
			.next = (uint16_t)(first + i + 1),
		};
	avail->ring[avail->idx % SIZE] = first;
	avail->idx++;
	f->offered++;
}

static int report(struct fixture *f, const uint64_t (*parts)[2], uint16_t count)
{
	offer(f, 0, parts, count);
	return f->device.ops->notify(&f->device, REPORTING, &f->err);
}

static uint16_t used(struct fixture *f)
{
	return ((struct vring_used *)at(f, USED))->idx;
}

static void test_pages_go_back(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 8 * PAGE, 4 * PAGE }, { 32 * PAGE, 2 * PAGE } };

	assert_int_equal(pages(f), 64);
	assert_int_equal(report(f, parts, 2), 0);
	assert_int_equal(pages(f), 58);
	assert_int_equal(used(f), 1);
	assert_int_equal(f->signals, 1);
	assert_int_equal(*at(f, 8 * PAGE), 0);
	assert_int_equal(*at(f, 12 * PAGE), 0x5a);
	memset(at(f, 8 * PAGE), 1, PAGE); /* and are there again when they are used */
	assert_int_equal(pages(f), 59);
}

static void test_parts_of_pages_stay(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 8 * PAGE + 1, PAGE - 1 },
				      { 9 * PAGE, PAGE - 1 },
				      { 10 * PAGE + 100, 2 * PAGE } };

	assert_int_equal(report(f, parts, 3), 0);
	assert_int_equal(pages(f), 63); /* number 11 is whole */
	assert_int_equal(*at(f, 10 * PAGE + 200), 0x5a);
	assert_int_equal(*at(f, 11 * PAGE), 0);
	assert_int_equal(*at(f, 12 * PAGE), 0x5a);
}

static void test_outside_of_memory(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 60 * PAGE, 5 * PAGE } },
		       wraps[][2] = { { -8192ull, 3 * PAGE } };

	assert_int_equal(report(f, parts, 1), -1);
	use_queue(f, REPORTING);
	((struct vring_avail *)at(f, AVAIL))->idx = 0;
	assert_int_equal(report(f, wraps, 1), -1);
	assert_int_equal(pages(f), 64);
}

static void test_same_again_and_overlapping(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 8 * PAGE, 8 * PAGE },
				      { 12 * PAGE, 8 * PAGE },
				      { 8 * PAGE, 8 * PAGE } };

	assert_int_equal(report(f, parts, 3), 0);
	assert_int_equal(report(f, parts, 3), 0);
	assert_int_equal(pages(f), 52);
}

/* Even the rings: it is the guest's memory, and its loss. */
static void test_its_own_rings(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 0, RINGS * PAGE } };

	assert_int_equal(report(f, parts, 1), -1); /* the ring's index has gone back */
	assert_in_range(pages(f), 61, 64);
}

/* As a template's code is mapped: it stays as it is, and so does its file. */
static void test_memory_of_another_file(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 16 * PAGE, 8 * PAGE } };
	int other = memfd_create("kernel", MFD_CLOEXEC);
	struct stat before, after;

	assert_int_equal(ftruncate(other, PAGE), 0);
	assert_int_equal(pwrite(other, "constant", 8, 0), 8);
	assert_int_equal(fstat(other, &before), 0);
	assert_ptr_not_equal(mmap(at(f, 20 * PAGE), PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_FIXED, other, 0),
			     MAP_FAILED);
	assert_int_equal(report(f, parts, 1), 0);
	assert_memory_equal(at(f, 20 * PAGE), "constant", 8);
	assert_int_equal(fstat(other, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_in_range(pages(f), 56, 64);
	close(other);
}

/* A few requests at a time, so that others are served; the rest by a kick of its own. */
static void test_many_are_served_in_turns(void **state)
{
	struct fixture *f = *state;
	unsigned int turns = 0;
	uint64_t kicks;

	for (uint16_t i = 0; i < 10; i++)
		offer(f, i, (const uint64_t[][2]){ { (8ull + i) * PAGE, PAGE } }, 1);
	do {
		uint16_t before = used(f);

		assert_int_equal(f->device.ops->notify(&f->device, REPORTING, &f->err), 0);
		assert_in_range(used(f) - before, 0, 4);
		turns++;
	} while (read(f->device.kick_fds[REPORTING], &kicks, sizeof(kicks)) > 0);
	assert_in_range(turns, 3, 4);
	assert_int_equal(used(f), 10);
	assert_int_equal(pages(f), 54);
}

/* Nobody asked for pages: what is put into the balloon stays the guest's. */
static void test_inflating_does_nothing(void **state)
{
	struct fixture *f = *state;
	const uint64_t parts[][2] = { { 8 * PAGE, PAGE } };

	virtqueue_deactivate(&f->device.queues[REPORTING]);
	use_queue(f, INFLATE);
	offer(f, 0, parts, 1);
	assert_int_equal(f->device.ops->notify(&f->device, INFLATE, &f->err), 0);
	assert_int_equal(used(f), 1);
	assert_int_equal(pages(f), 64);
}

static void test_what_a_driver_sees(void **state)
{
	struct fixture *f = *state;
	const uint8_t zeros[8] = { 0 };

	assert_int_equal(f->device.ops->type, VIRTIO_ID_BALLOON);
	assert_int_equal(f->device.ops->features, 1u << VIRTIO_BALLOON_F_REPORTING);
	assert_int_equal(f->device.config_size, 8);
	assert_memory_equal(f->device.config, zeros, 8);
}

static void test_huge_pages_are_held(void **state)
{
	struct guest_memory memory;
	int fd = memfd_create("guest", MFD_CLOEXEC);
	struct err err;
	bool held;

	assert_int_equal(ftruncate(fd, 0x400000), 0);
	assert_int_equal(guest_memory_map(&memory, fd, 0x400000, &err), 0);
	guest_memory_unmap(&memory);
	assert_int_equal(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 0);

	held = huge_pages_hold();
	assert_true(held);
	assert_int_equal(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 1);
	/* Who forbade them before is not overruled. */
	assert_false(huge_pages_hold());
	huge_pages_release(false);
	assert_int_equal(guest_memory_map(&memory, fd, 0x400000, &err), 0);
	guest_memory_unmap(&memory);
	assert_int_equal(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 1);
	huge_pages_release(held);
	assert_int_equal(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pages_go_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts_of_pages_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outside_of_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same_again_and_overlapping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_its_own_rings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_of_another_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_are_served_in_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_inflating_does_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_a_driver_sees, setup, teardown),
		cmocka_unit_test(test_huge_pages_are_held),
	};

	return cmocka_run_group_tests_name("balloon", tests, NULL, NULL);
}
