/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "disk_image.h"

#include <linux/virtio_blk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct disk image_disk;
uint8_t image_data[8 * DISK_SECTOR];

int image_setup(void **state)
{
	image_disk = (struct disk){ .number = 3,
				    .fd = memfd_create("image", MFD_CLOEXEC),
				    .sectors = IMAGE_SECTORS };
	for (unsigned int i = 0; i < IMAGE_SECTORS; i++) {
		memset(image_data, (int)i + 1, DISK_SECTOR);
		assert_int_equal(pwrite(image_disk.fd, image_data, DISK_SECTOR, i * DISK_SECTOR),
				 DISK_SECTOR);
	}
	memset(image_data, 0, sizeof(image_data));
	return 0;
}

int image_teardown(void **state)
{
	struct stat st;

	assert_int_equal(fstat(image_disk.fd, &st), 0);
	assert_int_equal(st.st_size, IMAGE_SECTORS * DISK_SECTOR);
	close(image_disk.fd);
	return 0;
}

uint8_t image_request(uint32_t type, uint64_t sector, uint32_t size, bool written)
{
	uint8_t status = 0xff;
	struct virtio_blk_outhdr header = { .type = type, .sector = sector };
	struct chain chain = {
		.readable_count = written ? 2 : 1,
		.writable_count = written ? 1 : 2,
		.readable_size = (uint32_t)sizeof(header) + (written ? size : 0),
		.writable_size = 1 + (written ? 0 : size),
		.iov = { { &header, sizeof(header) }, { image_data, size }, { &status, 1 } }
	};
	uint32_t done;

	done = disk_serve(&image_disk, &chain);
	assert_int_equal(done, status == VIRTIO_BLK_S_OK ? chain.writable_size : 1);
	return status;
}

uint8_t image_clear(uint32_t type, uint64_t sector, uint32_t count, uint32_t flags)
{
	struct virtio_blk_discard_write_zeroes segment = { .sector = sector,
							   .num_sectors = count,
							   .flags = flags };

	memcpy(image_data, &segment, sizeof(segment));
	return image_request(type, 0, sizeof(segment), true);
}

uint8_t image_byte(uint64_t sector)
{
	uint8_t byte = 0xee;

	assert_int_equal(pread(image_disk.fd, &byte, 1, (off_t)(sector * DISK_SECTOR)), 1);
	return byte;
}
