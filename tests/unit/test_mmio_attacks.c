/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The virtio-mmio transport with a driver that follows no rules. */
#include "mmio_driver.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Attack 4: every register written after DRIVER_OK, the queue's size included. */
static void changes_nothing_while_it_runs(void **state)
{
	static const uint32_t values[] = { 1, 2, 0x100, 0xfffff000, UINT32_MAX };
	struct mmio_driver *f = *state;
	struct vring_used *used = mmio_driver_at(f, DRIVER_USED);
	struct virtqueue_state before;

	mmio_driver_start(f);
	before = f->device.queues[0].state;
	for (uint64_t offset = 0; offset < 0x200; offset += 4)
		for (size_t i = 0; i < ARRAY_LEN(values); i++)
			mmio_put(&f->mmio, offset, values[i]);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_SEL, 0);
	for (uint64_t offset = 0; offset < 0x200; offset += 4)
		for (size_t i = 0; i < ARRAY_LEN(values); i++)
			if (offset != VIRTIO_MMIO_QUEUE_SEL)
				mmio_put(&f->mmio, offset, values[i]);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_READY, 0);
	assert_memory_equal(&before, &f->device.queues[0].state, sizeof(before));
	assert_int_equal(f->mmio.state.driver_features, DRIVER_FEATURES);
	assert_true(f->device.active);
	mmio_driver_offer(f, DRIVER_BUFFER, 16);
	mmio_driver_kick(f);
	assert_int_equal(used->idx, 1);
}

static void changes_no_queue_that_is_ready(void **state)
{
	struct mmio_driver *f = *state;

	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, DRIVER_SIZE); /* before features */
	assert_int_equal(f->device.queues[0].state.size, 0);
	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_driver_queue(&f->mmio, 0, DRIVER_DESC);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, 2);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_DESC_LOW, 0x100);
	assert_int_equal(f->device.queues[0].state.size, DRIVER_SIZE);
	assert_int_equal(f->device.queues[0].state.desc, DRIVER_DESC);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_READY, 0);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, 2);
	assert_int_equal(f->device.queues[0].state.size, 2);
}

/* Attack 8: configuration space, queue select and notify out of range. */
static void stays_in_range(void **state)
{
	struct mmio_driver *f = *state;
	uint8_t bytes[8];

	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	for (uint32_t select = 1; select; select <<= 1) {
		mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_SEL, select);
		assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
		assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_QUEUE_READY), 0);
		mmio_driver_queue(&f->mmio, select, DRIVER_DESC);
		mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, select);
	}
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, UINT32_MAX);
	assert_int_equal(f->device.queues[0].state.ready, 0);
	mmio_driver_serve(f);
	f->device.config_size = 6;
	memcpy(f->device.config, "configuration", 13);
	mmio_publish(&f->mmio);
	for (uint64_t offset = VIRTIO_MMIO_CONFIG; offset < MMIO_SIZE; offset++) {
		for (uint32_t size = 1; size <= 8; size *= 2) {
			mmio_read(&f->mmio, offset, bytes, size);
			mmio_write(&f->mmio, offset, "overwritten", size);
			for (uint32_t i = 0; i < size; i++) {
				uint64_t place = offset - VIRTIO_MMIO_CONFIG + i;

				assert_int_equal(bytes[i], place < 6 ? "config"[place] : 0);
			}
		}
	}
}

static void ignores_odd_accesses(void **state)
{
	struct mmio_driver *f = *state;
	uint8_t bytes[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, read[8];
	uint32_t before[ARRAY_LEN(f->page)];

	memcpy(before, f->page, sizeof(before));
	for (uint64_t offset = 0; offset < VIRTIO_MMIO_CONFIG; offset++) {
		for (uint32_t size = 1; size <= 8; size *= 2) {
			if (size == 4 && offset % 4 == 0)
				continue;
			mmio_write(&f->mmio, offset, bytes, size);
			mmio_read(&f->mmio, offset, read, size); /* of memory: any part of it */
			assert_memory_equal(read, (uint8_t *)f->page + offset, size);
		}
	}
	assert_memory_equal(f->page, before, sizeof(before));
}

static void assert_needs_reset(struct mmio_driver *f)
{
	assert_false(f->device.active);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS),
			 STATUS_RUNNING | VIRTIO_CONFIG_S_NEEDS_RESET);
	assert_true(mmio_get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	assert_true(mmio_driver_interrupted(f));
	/* It can be used again after a reset. */
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	assert_false(mmio_get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	memset(mmio_driver_at(f, DRIVER_AVAIL), 0, 0x100);
	memset(mmio_driver_at(f, DRIVER_USED), 0, 0x100);
	mmio_driver_start(f);
	mmio_driver_offer(f, DRIVER_BUFFER, 8);
	mmio_driver_kick(f);
	assert_int_equal(((struct vring_used *)mmio_driver_at(f, DRIVER_USED))->idx, 1);
}

/* Attack 1, through a device. */
static void stops_at_a_broken_ring(void **state)
{
	struct mmio_driver *f = *state;

	mmio_driver_start(f);
	mmio_driver_offer(f, DRIVER_MEMORY - 4, 5);
	mmio_driver_kick(f);
	assert_needs_reset(f);
}

static void stops_at_a_ring_outside_of_memory(void **state)
{
	struct mmio_driver *f = *state;

	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_driver_queue(&f->mmio, 0, DRIVER_MEMORY - 16);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
	assert_needs_reset(f);
}

/* Attack 6: a reset between a kick and its being served. */
static void drops_requests_at_a_reset(void **state)
{
	struct mmio_driver *f = *state;
	uint8_t zero[16] = { 0 };

	mmio_driver_start(f);
	mmio_driver_offer(f, DRIVER_BUFFER, 16);
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	mmio_driver_serve(f);
	assert_memory_equal(mmio_driver_at(f, DRIVER_BUFFER), zero, sizeof(zero));
	assert_false(mmio_driver_interrupted(f));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, mmio_driver_setup, mmio_driver_teardown)
	const struct CMUnitTest tests[] = {
		TEST(changes_nothing_while_it_runs),
		TEST(changes_no_queue_that_is_ready),
		TEST(stays_in_range),
		TEST(ignores_odd_accesses),
		TEST(stops_at_a_broken_ring),
		TEST(stops_at_a_ring_outside_of_memory),
		TEST(drops_requests_at_a_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
