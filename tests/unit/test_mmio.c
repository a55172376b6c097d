/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtio-mmio transport against a driver that follows the rules and one that does not. There
 * are no threads: registers and queues are served in turn.
 */
#include "base/fd.h"
#include "fs/fsd.h"
#include "vmm/external.h"
#include "vmm/mmio.h"
#include "vmm/rng.h"

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_fs.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cmocka.h>

#define MEMORY	 0x200000ull
#define SIZE	 4u
#define DESC	 0x1000u
#define AVAIL	 0x2000u
#define USED	 0x3000u
#define BUFFER	 0x4000u
#define FEATURES (1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX)

#define UP_TO_FEATURES (VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER)
#define UP_TO_QUEUES   (UP_TO_FEATURES | VIRTIO_CONFIG_S_FEATURES_OK)
#define RUNNING	       (UP_TO_QUEUES | VIRTIO_CONFIG_S_DRIVER_OK)

struct fixture {
	struct guest_memory memory;
	struct loop loop;
	struct device device;
	struct mmio_device mmio;
	struct err err;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	int fd = guest_memory_create(MEMORY, &f->err);

	if (fd < 0 || guest_memory_map(&f->memory, fd, MEMORY, &f->err) < 0 ||
	    loop_init(&f->loop, &f->err) < 0)
		return -1;
	close(fd);
	rng_init(&f->device);
	*state = f;
	return mmio_init(&f->mmio, &f->device, &f->memory, &f->loop, NULL, &f->err);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	mmio_free(&f->mmio);
	loop_close(&f->loop);
	guest_memory_unmap(&f->memory);
	free(f);
	return 0;
}

static void *at(struct fixture *f, uint64_t gpa)
{
	return f->memory.slots[0].host + gpa;
}

static uint32_t get(struct mmio_device *mmio, uint64_t offset)
{
	uint32_t value = 0x5a5a5a5a;

	mmio_read(mmio, offset, &value, 4);
	return value;
}

static void put(struct mmio_device *mmio, uint64_t offset, uint32_t value)
{
	mmio_write(mmio, offset, &value, 4);
}

static void negotiate(struct mmio_device *mmio, uint64_t features)
{
	put(mmio, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	put(mmio, VIRTIO_MMIO_STATUS, UP_TO_FEATURES);
	put(mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	put(mmio, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)features);
	put(mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	put(mmio, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> 32));
	put(mmio, VIRTIO_MMIO_STATUS, UP_TO_QUEUES);
}

static void make_queue(struct mmio_device *mmio, uint32_t index, uint64_t desc)
{
	put(mmio, VIRTIO_MMIO_QUEUE_SEL, index);
	put(mmio, VIRTIO_MMIO_QUEUE_NUM, SIZE);
	put(mmio, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)desc);
	put(mmio, VIRTIO_MMIO_QUEUE_DESC_HIGH, (uint32_t)(desc >> 32));
	put(mmio, VIRTIO_MMIO_QUEUE_AVAIL_LOW, AVAIL);
	put(mmio, VIRTIO_MMIO_QUEUE_AVAIL_HIGH, 0);
	put(mmio, VIRTIO_MMIO_QUEUE_USED_LOW, USED);
	put(mmio, VIRTIO_MMIO_QUEUE_USED_HIGH, 0);
	put(mmio, VIRTIO_MMIO_QUEUE_READY, 1);
}

static void start(struct fixture *f)
{
	negotiate(&f->mmio, FEATURES);
	make_queue(&f->mmio, 0, DESC);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING);
}

/* One buffer of len bytes for the device to write to. */
static void offer(struct fixture *f, uint64_t addr, uint32_t len)
{
	struct vring_desc *desc = at(f, DESC);
	struct vring_avail *avail = at(f, AVAIL);

	desc[0] = (struct vring_desc){ .addr = addr, .len = len, .flags = VRING_DESC_F_WRITE };
	avail->ring[avail->idx % SIZE] = 0;
	avail->idx++;
}

/* Lets the loop serve what waits, and end. */
static int stop(struct source *source, uint32_t events, struct err *err)
{
	loop_quit(source->data);
	return 0;
}

static void serve(struct fixture *f)
{
	struct source last = { .fd = eventfd(1, EFD_CLOEXEC), .ready = stop, .data = &f->loop };

	f->loop.quit = false;
	assert_int_equal(loop_watch(&f->loop, &last, EPOLLIN, &f->err), 0);
	assert_int_equal(loop_run(&f->loop, &f->err), 0);
	f->loop.quit = false;
	close(last.fd);
}

static void kick(struct fixture *f)
{
	put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	serve(f);
}

static bool interrupted(struct fixture *f)
{
	eventfd_t count;

	return eventfd_read(f->device.call_fd, &count) == 0;
}

static void says_what_it_is(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_VERSION), 2);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_RNG);
	put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 1);
	put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 0);
	put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, UINT32_MAX);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 0);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_SHM_LEN_HIGH), UINT32_MAX);
}

static void serves_a_driver(void **state)
{
	struct fixture *f = *state;
	struct vring_used *used = at(f, USED);

	start(f);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), RUNNING);
	assert_true(f->device.active);
	offer(f, BUFFER, 64);
	kick(f);
	assert_int_equal(used->idx, 1);
	assert_int_equal(used->ring[0].len, 64);
	assert_true(interrupted(f));
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	put(&f->mmio, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
}

static void hears_what_came_before_driver_ok(void **state)
{
	struct fixture *f = *state;
	struct vring_used *used = at(f, USED);

	negotiate(&f->mmio, FEATURES);
	make_queue(&f->mmio, 0, DESC);
	offer(f, BUFFER, 16);
	kick(f);
	assert_int_equal(used->idx, 0);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING);
	assert_int_equal(used->idx, 1);
}

static void goes_through_the_states_in_order(void **state)
{
	struct fixture *f = *state;
	static const uint32_t skips[] = {
		VIRTIO_CONFIG_S_DRIVER,	   UP_TO_FEATURES, UP_TO_QUEUES, RUNNING,
		VIRTIO_CONFIG_S_DRIVER_OK, 0x10,	   UINT32_MAX
	};

	for (size_t i = 0; i < ARRAY_LEN(skips); i++) {
		put(&f->mmio, VIRTIO_MMIO_STATUS, skips[i]);
		assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	}
	put(&f->mmio, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), VIRTIO_CONFIG_S_ACKNOWLEDGE);
	put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	negotiate(&f->mmio, FEATURES);
	put(&f->mmio, VIRTIO_MMIO_STATUS, UP_TO_FEATURES); /* bits are not taken back */
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), UP_TO_QUEUES);
	put(&f->mmio, VIRTIO_MMIO_STATUS, UP_TO_QUEUES | VIRTIO_CONFIG_S_FAILED);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING | VIRTIO_CONFIG_S_FAILED);
	assert_false(f->device.active);
}

static void refuses_features(void **state)
{
	struct fixture *f = *state;

	negotiate(&f->mmio, 0); /* no VERSION_1: the legacy interface is not there */
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), UP_TO_FEATURES);
	put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	negotiate(&f->mmio, FEATURES | 1ull << VIRTIO_F_RING_PACKED);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), UP_TO_FEATURES);
	put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	negotiate(&f->mmio, FEATURES);
	put(&f->mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0); /* too late */
	put(&f->mmio, VIRTIO_MMIO_DRIVER_FEATURES, UINT32_MAX);
	assert_int_equal(f->mmio.state.driver_features, FEATURES);
}

/* Attack 4: every register written after DRIVER_OK, the queue's size included. */
static void changes_nothing_while_it_runs(void **state)
{
	static const uint32_t values[] = { 1, 2, 0x100, 0xfffff000, UINT32_MAX };
	struct fixture *f = *state;
	struct vring_used *used = at(f, USED);
	struct virtqueue_state before;

	start(f);
	before = f->device.queues[0].state;
	for (uint64_t offset = 0; offset < 0x200; offset += 4)
		for (size_t i = 0; i < ARRAY_LEN(values); i++)
			put(&f->mmio, offset, values[i]);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_SEL, 0);
	for (uint64_t offset = 0; offset < 0x200; offset += 4)
		for (size_t i = 0; i < ARRAY_LEN(values); i++)
			if (offset != VIRTIO_MMIO_QUEUE_SEL)
				put(&f->mmio, offset, values[i]);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_READY, 0);
	assert_memory_equal(&before, &f->device.queues[0].state, sizeof(before));
	assert_int_equal(f->mmio.state.driver_features, FEATURES);
	assert_true(f->device.active);
	offer(f, BUFFER, 16);
	kick(f);
	assert_int_equal(used->idx, 1);
}

static void changes_no_queue_that_is_ready(void **state)
{
	struct fixture *f = *state;

	put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, SIZE); /* before features */
	assert_int_equal(f->device.queues[0].state.size, 0);
	negotiate(&f->mmio, FEATURES);
	make_queue(&f->mmio, 0, DESC);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, 2);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_DESC_LOW, 0x100);
	assert_int_equal(f->device.queues[0].state.size, SIZE);
	assert_int_equal(f->device.queues[0].state.desc, DESC);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_READY, 0);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_NUM, 2);
	assert_int_equal(f->device.queues[0].state.size, 2);
}

/* Attack 8: configuration space, queue select and notify out of range. */
static void stays_in_range(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[8];

	negotiate(&f->mmio, FEATURES);
	for (uint32_t select = 1; select; select <<= 1) {
		put(&f->mmio, VIRTIO_MMIO_QUEUE_SEL, select);
		assert_int_equal(get(&f->mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
		assert_int_equal(get(&f->mmio, VIRTIO_MMIO_QUEUE_READY), 0);
		make_queue(&f->mmio, select, DESC);
		put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, select);
	}
	put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, UINT32_MAX);
	assert_int_equal(f->device.queues[0].state.ready, 0);
	serve(f);
	f->device.config_size = 6;
	memcpy(f->device.config, "configuration", 13);
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
	struct fixture *f = *state;
	uint8_t bytes[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	for (uint64_t offset = 0; offset < VIRTIO_MMIO_CONFIG; offset++) {
		for (uint32_t size = 1; size <= 8; size *= 2) {
			if (size == 4 && offset % 4 == 0)
				continue;
			mmio_write(&f->mmio, offset, bytes, size);
			mmio_read(&f->mmio, offset, bytes, size);
			for (uint32_t i = 0; i < size; i++)
				assert_int_equal(bytes[i], 0);
			memset(bytes, 1, sizeof(bytes));
		}
	}
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
}

static void assert_needs_reset(struct fixture *f)
{
	assert_false(f->device.active);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), RUNNING | VIRTIO_CONFIG_S_NEEDS_RESET);
	assert_true(get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS) & VIRTIO_MMIO_INT_CONFIG);
	assert_true(interrupted(f));
	/* It can be used again after a reset. */
	put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS), 0);
	memset(at(f, AVAIL), 0, 0x100);
	memset(at(f, USED), 0, 0x100);
	start(f);
	offer(f, BUFFER, 8);
	kick(f);
	assert_int_equal(((struct vring_used *)at(f, USED))->idx, 1);
}

/* Attack 1, through a device. */
static void stops_at_a_broken_ring(void **state)
{
	struct fixture *f = *state;

	start(f);
	offer(f, MEMORY - 4, 5);
	kick(f);
	assert_needs_reset(f);
}

static void stops_at_a_ring_outside_of_memory(void **state)
{
	struct fixture *f = *state;

	negotiate(&f->mmio, FEATURES);
	make_queue(&f->mmio, 0, MEMORY - 16);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING);
	assert_needs_reset(f);
}

static void runs_without_a_queue(void **state)
{
	struct fixture *f = *state;

	negotiate(&f->mmio, FEATURES);
	put(&f->mmio, VIRTIO_MMIO_STATUS, RUNNING);
	kick(f);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), RUNNING);
}

/* Attack 6: a reset between a kick and its being served. */
static void drops_requests_at_a_reset(void **state)
{
	struct fixture *f = *state;
	uint8_t zero[16] = { 0 };

	start(f);
	offer(f, BUFFER, 16);
	put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	serve(f);
	assert_memory_equal(at(f, BUFFER), zero, sizeof(zero));
	assert_false(interrupted(f));
}

/* A place for a device: no driver can start it until it appears. */
static void is_a_placeholder_at_first(void **state)
{
	struct fixture *f = *state;

	f->device.absent = true;
	f->device.config_size = 4;
	f->device.config[0] = 7;
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_VERSION), 2);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), 0);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_CONFIG), 0);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
	start(f);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	kick(f);
	assert_false(f->device.active);
	device_appear(&f->device);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_RNG);
	assert_int_equal(get(&f->mmio, VIRTIO_MMIO_CONFIG), 7);
	start(f);
	offer(f, BUFFER, 8);
	kick(f);
	assert_int_equal(((struct vring_used *)at(f, USED))->idx, 1);
}

/* The file system's queues go to fsd, and come back at a reset. */
static void hands_queues_to_the_file_server(void **state)
{
	struct fixture *f = *state;
	struct mmio_device mmio;
	struct external_device fs;
	struct fs_queue_setup message;
	int pair[2], fds[2 * FSD_QUEUES_MAX + 1];
	enum { QUEUES = 3 };
	char tag[36];

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	assert_int_equal(fs_init(&fs, &f->loop, pair[0], QUEUES - 1, &f->err), 0);
	assert_int_equal(mmio_init(&mmio, &fs.device, &f->memory, &f->loop, NULL, &f->err), 0);
	mmio_read(&mmio, VIRTIO_MMIO_CONFIG, tag, sizeof(tag));
	assert_string_equal(tag, FSD_TAG);
	assert_int_equal(get(&mmio, VIRTIO_MMIO_CONFIG + sizeof(tag)), QUEUES - 1);
	/* 1 MiB is 256 pages; Linux keeps four entries for headers. */
	put(&mmio, VIRTIO_MMIO_QUEUE_SEL, 1);
	assert_in_range(get(&mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 256 + 4, VIRTQUEUE_SIZE_MAX);
	negotiate(&mmio, FEATURES);
	for (uint32_t i = 0; i < QUEUES; i++)
		make_queue(&mmio, i, DESC + 0x100 * i);
	put(&mmio, VIRTIO_MMIO_STATUS, RUNNING);
	assert_int_equal(fd_receive(pair[1], &message, sizeof(message), fds, ARRAY_LEN(fds)),
			 sizeof(message));
	assert_int_equal(message.type, FS_SETUP_START);
	assert_int_equal(message.features, FEATURES);
	assert_int_equal(message.queue[1].desc, DESC + 0x100);
	assert_int_equal(message.queue[1].size, SIZE);
	put(&mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 1);
	assert_int_equal(eventfd_write(fds[QUEUES], 1), 0);
	assert_int_equal(eventfd_read(fds[1], &(eventfd_t){ 0 }), 0);
	assert_int_equal(eventfd_read(fs.device.call_fd, &(eventfd_t){ 0 }), 0);
	assert_int_equal(get(&mmio, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	/* The answer to the reset is there already: nobody else runs here. */
	message.type = FS_SETUP_RESET;
	assert_int_equal(fd_send(pair[1], &message, sizeof(message), NULL, 0), 0);
	put(&mmio, VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(fd_receive(pair[1], &message, sizeof(message), NULL, 0), sizeof(message));
	assert_int_equal(message.type, FS_SETUP_RESET);
	assert_int_equal(get(&mmio, VIRTIO_MMIO_STATUS), 0);
	close(pair[1]);
	assert_int_equal(loop_run(&f->loop, &f->err), -1);
	assert_non_null(strstr(f->err.text, "server of the file system has ended"));
	for (size_t i = 0; i < 2 * QUEUES; i++)
		close(fds[i]);
	mmio_free(&mmio);
	close(pair[0]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(says_what_it_is),
		TEST(serves_a_driver),
		TEST(hears_what_came_before_driver_ok),
		TEST(goes_through_the_states_in_order),
		TEST(refuses_features),
		TEST(changes_nothing_while_it_runs),
		TEST(changes_no_queue_that_is_ready),
		TEST(stays_in_range),
		TEST(ignores_odd_accesses),
		TEST(stops_at_a_broken_ring),
		TEST(stops_at_a_ring_outside_of_memory),
		TEST(runs_without_a_queue),
		TEST(drops_requests_at_a_reset),
		TEST(is_a_placeholder_at_first),
		TEST(hands_queues_to_the_file_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
