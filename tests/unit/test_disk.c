/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Disks: what a request does to the image and answers, and what it is refused. */
#include "disk_image.h"

#include <linux/virtio_blk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void reads_and_writes(void **state)
{
	assert_int_equal(image_request(VIRTIO_BLK_T_IN, 5, sizeof(image_data), false),
			 VIRTIO_BLK_S_OK);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(image_data[i * DISK_SECTOR + 511], 6 + i);
	memset(image_data, 0xaa, sizeof(image_data));
	assert_int_equal(image_request(VIRTIO_BLK_T_OUT, 62, 2 * DISK_SECTOR, true),
			 VIRTIO_BLK_S_OK);
	assert_int_equal(image_byte(61), 62);
	assert_int_equal(image_byte(62), 0xaa);
	assert_int_equal(image_byte(63), 0xaa);
	assert_int_equal(image_request(VIRTIO_BLK_T_FLUSH, 0, 0, true), VIRTIO_BLK_S_OK);
	assert_int_equal(image_request(VIRTIO_BLK_T_IN, 0, 0, false), VIRTIO_BLK_S_OK);
	assert_int_equal(image_request(VIRTIO_BLK_T_GET_ID, 0, 20, false), VIRTIO_BLK_S_OK);
	assert_string_equal((char *)image_data, "moat-3");
}

static void refuses_what_is_not_there(void **state)
{
	static const uint64_t sectors[] = {
		57, 63, 64, 65, 1ull << 55, UINT64_MAX - 7, UINT64_MAX
	};

	for (size_t i = 0; i < sizeof(sectors) / sizeof(*sectors); i++) {
		assert_int_equal(
			image_request(VIRTIO_BLK_T_IN, sectors[i], sizeof(image_data), false),
			VIRTIO_BLK_S_IOERR);
		assert_int_equal(
			image_request(VIRTIO_BLK_T_OUT, sectors[i], sizeof(image_data), true),
			VIRTIO_BLK_S_IOERR);
	}
	assert_int_equal(image_request(VIRTIO_BLK_T_IN, 0, 511, false), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_request(VIRTIO_BLK_T_OUT, 0, 513, true), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_request(77, 0, 512, false), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(image_request(VIRTIO_BLK_T_SECURE_ERASE, 0, 16, true),
			 VIRTIO_BLK_S_UNSUPP);
	/* An image that was cut short meanwhile. */
	assert_int_equal(ftruncate(image_disk.fd, 10 * DISK_SECTOR), 0);
	assert_int_equal(image_request(VIRTIO_BLK_T_IN, 8, sizeof(image_data), false),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(ftruncate(image_disk.fd, IMAGE_SECTORS * DISK_SECTOR), 0);
}

static void discards_and_zeroes(void **state)
{
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 8, 8, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(image_byte(7), 8);
	assert_int_equal(image_byte(8), 0);
	assert_int_equal(image_byte(15), 0);
	assert_int_equal(image_byte(16), 17);
	assert_int_equal(image_clear(VIRTIO_BLK_T_WRITE_ZEROES, 20, 1, 1), VIRTIO_BLK_S_OK);
	assert_int_equal(image_byte(20), 0);
	assert_int_equal(image_byte(21), 22);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 0, 0, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 0, 1, 1), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(image_clear(VIRTIO_BLK_T_WRITE_ZEROES, 0, 1, 2), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 60, 5, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, UINT64_MAX, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 0, UINT32_MAX, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_request(VIRTIO_BLK_T_DISCARD, 0, 32, true), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(image_byte(0), 1);
}

static void read_only(void **state)
{
	image_disk.read_only = true;
	assert_int_equal(image_request(VIRTIO_BLK_T_IN, 5, DISK_SECTOR, false), VIRTIO_BLK_S_OK);
	assert_int_equal(image_request(VIRTIO_BLK_T_OUT, 5, DISK_SECTOR, true), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 5, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_clear(VIRTIO_BLK_T_WRITE_ZEROES, 5, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_byte(5), 6);
}

static void odd_chains(void **state)
{
	struct virtio_blk_outhdr header = { .type = VIRTIO_BLK_T_IN, .sector = 3 };
	uint8_t both[DISK_SECTOR + 1];
	struct chain chain = { .readable_count = 1,
			       .readable_size = 16,
			       .iov = { { &header, 16 } } };
	uint8_t status;

	assert_int_equal(disk_serve(&image_disk, &chain), 0); /* no room for a status */
	/* The header in two parts; the status in the buffer of the data. */
	chain = (struct chain){
		.readable_count = 2,
		.readable_size = 16,
		.writable_count = 1,
		.writable_size = sizeof(both),
		.iov = { { &header, 3 }, { (uint8_t *)&header + 3, 13 }, { both, sizeof(both) } }
	};
	both[DISK_SECTOR] = 0xff;
	assert_int_equal(disk_serve(&image_disk, &chain), sizeof(both));
	assert_int_equal(both[DISK_SECTOR - 1], 4);
	assert_int_equal(both[DISK_SECTOR], VIRTIO_BLK_S_OK);
	/* A header that is cut off. */
	chain = (struct chain){ .readable_count = 1,
				.readable_size = 15,
				.writable_count = 1,
				.writable_size = 1,
				.iov = { { &header, 15 }, { &status, 1 } } };
	assert_int_equal(disk_serve(&image_disk, &chain), 1);
	assert_int_equal(status, VIRTIO_BLK_S_IOERR);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, image_setup, image_teardown)
	const struct CMUnitTest tests[] = {
		TEST(reads_and_writes),	   TEST(refuses_what_is_not_there),
		TEST(discards_and_zeroes), TEST(read_only),
		TEST(odd_chains),
	};

	return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
