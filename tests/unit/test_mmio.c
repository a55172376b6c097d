/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtio-mmio transport with a driver that follows the rules, also where its device has yet to
 * appear or is served by another process.
 */
#include "mmio_driver.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fs/fsd.h"
#include "vmm/external.h"

#include <linux/virtio_ids.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void says_what_it_is(void **state)
{
	struct mmio_driver *f = *state;

	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_VERSION), 2);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_RNG);
	mmio_put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 1);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 1);
	mmio_put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 2);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 0);
	mmio_put(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES_SEL, UINT32_MAX);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_FEATURES), 0);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_SHM_LEN_HIGH), UINT32_MAX);
}

static void serves_a_driver(void **state)
{
	struct mmio_driver *f = *state;
	struct vring_used *used = mmio_driver_at(f, DRIVER_USED);

	mmio_driver_start(f);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), STATUS_RUNNING);
	assert_true(f->device.active);
	mmio_driver_offer(f, DRIVER_BUFFER, 64);
	mmio_driver_kick(f);
	assert_int_equal(used->idx, 1);
	assert_int_equal(used->ring[0].len, 64);
	assert_true(mmio_driver_interrupted(f));
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	/* Which it always says, as nobody tells the transport of the next one. */
	mmio_put(&f->mmio, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
}

static void hears_what_came_before_driver_ok(void **state)
{
	struct mmio_driver *f = *state;
	struct vring_used *used = mmio_driver_at(f, DRIVER_USED);

	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_driver_queue(&f->mmio, 0, DRIVER_DESC);
	mmio_driver_offer(f, DRIVER_BUFFER, 16);
	mmio_driver_kick(f);
	assert_int_equal(used->idx, 0);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
	assert_int_equal(used->idx, 1);
}

static void goes_through_the_states_in_order(void **state)
{
	struct mmio_driver *f = *state;
	static const uint32_t skips[] = { VIRTIO_CONFIG_S_DRIVER,
					  STATUS_UP_TO_FEATURES,
					  STATUS_UP_TO_QUEUES,
					  STATUS_RUNNING,
					  VIRTIO_CONFIG_S_DRIVER_OK,
					  0x10,
					  UINT32_MAX };

	for (size_t i = 0; i < ARRAY_LEN(skips); i++) {
		mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, skips[i]);
		assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	}
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), VIRTIO_CONFIG_S_ACKNOWLEDGE);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_UP_TO_FEATURES); /* bits are not taken back */
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), STATUS_UP_TO_QUEUES);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_UP_TO_QUEUES | VIRTIO_CONFIG_S_FAILED);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING | VIRTIO_CONFIG_S_FAILED);
	assert_false(f->device.active);
}

static void refuses_features(void **state)
{
	struct mmio_driver *f = *state;

	mmio_driver_negotiate(&f->mmio, 0); /* no VERSION_1: the legacy interface is not there */
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), STATUS_UP_TO_FEATURES);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES | 1ull << VIRTIO_F_RING_PACKED);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), STATUS_UP_TO_FEATURES);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, 0);
	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_put(&f->mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0); /* too late */
	mmio_put(&f->mmio, VIRTIO_MMIO_DRIVER_FEATURES, UINT32_MAX);
	assert_int_equal(f->mmio.state.driver_features, DRIVER_FEATURES);
}

static void runs_without_a_queue(void **state)
{
	struct mmio_driver *f = *state;

	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
	mmio_driver_kick(f);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), STATUS_RUNNING);
}

/* A place for a device: no driver can start it until it appears. */
static void is_a_placeholder_at_first(void **state)
{
	struct mmio_driver *f = *state;

	f->device.absent = true;
	f->device.config_size = 4;
	f->device.config[0] = 7;
	memset(f->page, 0, sizeof(f->page));
	mmio_publish(&f->mmio);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_MAGIC_VALUE), 0x74726976);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_VERSION), 2);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), 0);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_CONFIG), 0);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
	mmio_driver_start(f);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_STATUS), 0);
	mmio_driver_kick(f);
	assert_false(f->device.active);
	device_appear(&f->device);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_RNG);
	assert_int_equal(mmio_get(&f->mmio, VIRTIO_MMIO_CONFIG), 7);
	mmio_driver_start(f);
	mmio_driver_offer(f, DRIVER_BUFFER, 8);
	mmio_driver_kick(f);
	assert_int_equal(((struct vring_used *)mmio_driver_at(f, DRIVER_USED))->idx, 1);
}

/* The file system's queues go to fsd, and come back at a reset. */
static void hands_queues_to_the_file_server(void **state)
{
	struct mmio_driver *f = *state;
	uint32_t page[MMIO_SIZE / sizeof(uint32_t)] = { 0 };
	struct mmio_device mmio;
	struct external_device fs;
	struct fs_queue_setup message;
	int pair[2], fds[2 * FSD_QUEUES_MAX + 1];
	enum { QUEUES = 3 };
	char tag[36];

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	assert_int_equal(fs_init(&fs, &f->loop, pair[0], QUEUES - 1, &f->err), 0);
	assert_int_equal(mmio_init(&mmio, &fs.device, page, &f->memory, &f->loop, NULL, &f->err),
			 0);
	mmio_read(&mmio, VIRTIO_MMIO_CONFIG, tag, sizeof(tag));
	assert_string_equal(tag, FSD_TAG);
	assert_int_equal(mmio_get(&mmio, VIRTIO_MMIO_CONFIG + sizeof(tag)), QUEUES - 1);
	/* 1 MiB is 256 pages; Linux keeps four entries for headers. */
	mmio_put(&mmio, VIRTIO_MMIO_QUEUE_SEL, 1);
	assert_in_range(mmio_get(&mmio, VIRTIO_MMIO_QUEUE_NUM_MAX), 256 + 4, VIRTQUEUE_SIZE_MAX);
	mmio_driver_negotiate(&mmio, DRIVER_FEATURES);
	for (uint32_t i = 0; i < QUEUES; i++)
		mmio_driver_queue(&mmio, i, DRIVER_DESC + 0x100 * i);
	mmio_put(&mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
	assert_int_equal(fd_receive(pair[1], &message, sizeof(message), fds, ARRAY_LEN(fds)),
			 sizeof(message));
	assert_int_equal(message.type, FS_SETUP_START);
	assert_int_equal(message.features, DRIVER_FEATURES);
	assert_int_equal(message.queue[1].desc, DRIVER_DESC + 0x100);
	assert_int_equal(message.queue[1].size, DRIVER_SIZE);
	mmio_put(&mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 1);
	assert_int_equal(eventfd_write(fds[QUEUES], 1), 0);
	assert_int_equal(eventfd_read(fds[1], &(eventfd_t){ 0 }), 0);
	assert_int_equal(eventfd_read(fs.device.call_fd, &(eventfd_t){ 0 }), 0);
	assert_int_equal(mmio_get(&mmio, VIRTIO_MMIO_INTERRUPT_STATUS), VIRTIO_MMIO_INT_VRING);
	/* The answer to the reset is there already: nobody else runs here. */
	message.type = FS_SETUP_RESET;
	assert_int_equal(fd_send(pair[1], &message, sizeof(message), NULL, 0), 0);
	mmio_put(&mmio, VIRTIO_MMIO_STATUS, 0);
	assert_int_equal(fd_receive(pair[1], &message, sizeof(message), NULL, 0), sizeof(message));
	assert_int_equal(message.type, FS_SETUP_RESET);
	assert_int_equal(mmio_get(&mmio, VIRTIO_MMIO_STATUS), 0);
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
#define TEST(f) cmocka_unit_test_setup_teardown(f, mmio_driver_setup, mmio_driver_teardown)
	const struct CMUnitTest tests[] = {
		TEST(says_what_it_is),
		TEST(serves_a_driver),
		TEST(hears_what_came_before_driver_ok),
		TEST(goes_through_the_states_in_order),
		TEST(refuses_features),
		TEST(runs_without_a_queue),
		TEST(is_a_placeholder_at_first),
		TEST(hands_queues_to_the_file_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
