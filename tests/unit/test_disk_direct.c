/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Disks with direct I/O: on an image in a file system, as memfds have none, and on a block device.
 */
#include "disk_image.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/virtio_blk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Direct I/O, on an image in a file system, as memfds have none. */
struct direct {
	char path[32];
	int buffered; /* the tests' */
	uint8_t *memory;
	struct disk disk;
};

static bool direct_open(struct direct *d)
{
	snprintf(d->path, sizeof(d->path), "/tmp/moat-disk-XXXXXX");
	d->buffered = mkstemp(d->path);
	assert_true(d->buffered >= 0);
	assert_int_equal(ftruncate(d->buffered, 1 << 20), 0);
	d->disk = (struct disk){ .fd = d->buffered,
				 .sectors = (1 << 20) / DISK_SECTOR,
				 .direct = true,
				 .direct_fd = open(d->path, O_RDWR | O_DIRECT | O_CLOEXEC),
				 .block_size = 4096,
				 .bounce = aligned_alloc(4096, DISK_BOUNCE_SIZE) };
	d->memory = aligned_alloc(4096, 2 << 20);
	unlink(d->path);
	return d->disk.direct_fd >= 0;
}

static void direct_close(struct direct *d)
{
	close(d->buffered);
	close(d->disk.direct_fd);
	free(d->disk.bounce);
	free(d->memory);
}

/* Moves size bytes, in two parts, of which the first has `first` bytes. */
static uint8_t direct_request(const struct direct *d, uint32_t type, uint64_t sector,
			      uint8_t *memory, uint32_t size, uint32_t first)
{
	uint8_t status = 0xff;
	struct virtio_blk_outhdr header = { .type = type, .sector = sector };
	uint16_t out = type == VIRTIO_BLK_T_OUT ? 2 : 0;
	struct chain chain = { .readable_count = 1 + out,
			       .writable_count = 3 - out,
			       .readable_size = (uint32_t)sizeof(header) + (out ? size : 0),
			       .writable_size = 1 + (out ? 0 : size),
			       .iov = { { &header, sizeof(header) },
					{ memory, first },
					{ memory + first, size - first },
					{ &status, 1 } } };

	disk_serve(&d->disk, &chain);
	return status;
}

/* What of the image is in the page cache would not be there after direct I/O alone. */
static void direct(void **state)
{
	static const struct {
		uint32_t sector, offset, size, first;
	} cases[] = {
		{ 8, 0, 65536, 4096 },	    /* as it is to be */
		{ 8, 512, 65536, 4096 },    /* memory that is not aligned */
		{ 8, 0, 65536, 512 },	    /* parts that are not */
		{ 16, 1, 300 * 4096, 777 }, /* more than the buffer, all of it odd */
		{ 9, 0, 4096, 512 },	    /* not whole blocks: by the page cache */
		{ 9, 3, 512, 100 },
	};
	struct direct d;
	uint8_t *content = malloc(2 << 20);

	if (!direct_open(&d)) {
		direct_close(&d);
		free(content);
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t size =
			cases[i].size > (1 << 20) - 16 * 512 ? (1 << 20) - 16 * 512 : cases[i].size;
		uint8_t *memory = d.memory + cases[i].offset;

		for (uint32_t j = 0; j < size; j++)
			memory[j] = (uint8_t)(j * 7 + j / 4096 + i);
		assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, cases[i].sector, memory, size,
						cases[i].first),
				 VIRTIO_BLK_S_OK);
		assert_int_equal(pread(d.buffered, content, size, cases[i].sector * 512), size);
		assert_memory_equal(content, memory, size);
		memset(memory, 0, size);
		assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, cases[i].sector, memory, size,
						cases[i].first),
				 VIRTIO_BLK_S_OK);
		assert_memory_equal(content, memory, size);
	}
	/* A device alone, as block devices are: what it cannot do is an error of the request. */
	d.disk.fd = d.disk.direct_fd;
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 8, d.memory + 1, 8192, 1),
			 VIRTIO_BLK_S_OK);
	assert_int_equal(ftruncate(d.buffered, 8192), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 8, d.memory + 1, 8192, 1),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 16, d.memory, 8192, 4096),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(ftruncate(d.buffered, 1 << 20), 0);
	direct_close(&d);
	free(content);
}

/* A loop device of a file of 1 MiB in memory. Returns it, or -1 where there is none to be had. */
static int make_loop(int *backing)
{
	struct loop_config config = { .block_size = 512, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1;

	*backing = memfd_create("backing", MFD_CLOEXEC);
	config.fd = (uint32_t)*backing;
	assert_int_equal(ftruncate(*backing, 1 << 20), 0);
	for (int i = 0; control >= 0 && fd < 0 && i < 10; i++) { /* others may be quicker */
		char path[32];

		snprintf(path, sizeof(path), "/dev/loop%d", ioctl(control, LOOP_CTL_GET_FREE));
		fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) < 0)
			fd_replace(&fd, -1);
	}
	fd_replace(&control, -1);
	return fd;
}

static long long blocks_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (long long)st.st_blocks;
}

static void block_device(void **state)
{
	struct direct d = { .memory = aligned_alloc(4096, 1 << 20) };
	int fd = make_loop(&d.buffered), image = image_disk.fd;

	if (fd < 0) {
		close(d.buffered);
		free(d.memory);
		skip();
	}
	d.disk = (struct disk){ .fd = fd,
				.sectors = 2048,
				.direct = true,
				.direct_fd = fd,
				.block_size = 512,
				.bounce = aligned_alloc(4096, DISK_BOUNCE_SIZE) };
	memset(d.memory, 0x5a, 1 << 20);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 0, d.memory, 1 << 20, 512), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 3, d.memory + 1, 1024, 7), 0);
	memset(d.memory, 0, 4096);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 2047, d.memory + 3, 512, 5), 0);
	assert_int_equal(d.memory[3 + 511], 0x5a);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 2048, d.memory, 512, 5),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(fdatasync(fd), 0);
	assert_int_equal(blocks_of(d.buffered), 2048);
	/* Discarded: a hole in what is behind the device. */
	image_disk.fd = fd;
	image_disk.sectors = 2048;
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 512, 1024, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(blocks_of(d.buffered), 1024);
	assert_int_equal(image_request(VIRTIO_BLK_T_FLUSH, 0, 0, true), VIRTIO_BLK_S_OK);
	/* The device becomes smaller than it said it was. */
	assert_int_equal(ftruncate(d.buffered, 1 << 19), 0);
	assert_int_equal(ioctl(fd, LOOP_SET_CAPACITY, 0), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 1536, d.memory, 4096, 512),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 1023, d.memory, 4096, 512),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(image_clear(VIRTIO_BLK_T_DISCARD, 1536, 8, 0), VIRTIO_BLK_S_IOERR);
	image_disk.fd = image;
	direct_close(&d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, image_setup, image_teardown)
	const struct CMUnitTest tests[] = {
		TEST(direct),
		TEST(block_device),
	};

	return cmocka_run_group_tests_name("disk direct", tests, NULL, NULL);
}
