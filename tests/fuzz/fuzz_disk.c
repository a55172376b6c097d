/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes requests to a disk: the input is a row of chains, each a list of parts (4 bits of it which
 * side, the rest how long) and then the readable bytes. The image keeps its size, and a read-only
 * one its content.
 */
#include "disk/request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTORS	  32u
#define PARTS_MAX 8u
#define PART_MAX  4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t image[SECTORS * DISK_SECTOR], bounce[DISK_BOUNCE_SIZE];

/* Serves one chain made of the input; returns how many bytes of it were used. */
static size_t serve(const struct disk *disk, const uint8_t *data, size_t size)
{
	static uint8_t buffers[PARTS_MAX][PART_MAX];
	struct chain chain = { 0 };
	unsigned int parts = data[0] % PARTS_MAX + 1, readable = data[0] >> 4;
	size_t used = 1;

	for (unsigned int i = 0; i < parts && used + 1 < size; i++) {
		uint32_t length = (data[used] | (uint32_t)data[used + 1] << 8) % PART_MAX + 1;

		used += 2;
		chain.iov[i] = (struct iovec){ buffers[i], length };
		if (i < readable) {
			size_t given = size - used < length ? size - used : length;

			if (i == 0 && given > 16) /* the rest of the input is for others, too */
				given = 16;
			memset(buffers[i], 0, length);
			memcpy(buffers[i], data + used, given);
			used += given;
			chain.readable_count++;
			chain.readable_size += length;
		} else {
			chain.writable_count++;
			chain.writable_size += length;
		}
	}
	if (disk_serve(disk, &chain) > chain.writable_size)
		abort();
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct disk disk = { .fd = memfd_create("image", MFD_CLOEXEC), .sectors = SECTORS };
	uint8_t after[sizeof(image)];
	struct stat st;

	if (disk.fd < 0 || write(disk.fd, image, sizeof(image)) != (ssize_t)sizeof(image))
		abort();
	disk.read_only = size && data[0] & 8;
	if (size && data[0] & 0x80) { /* what is aligned for it goes one way, the rest another */
		disk.direct = true;
		disk.direct_fd = disk.fd;
		disk.block_size = 512;
		disk.bounce = bounce;
	}
	for (size_t used = 0; used < size;)
		used += serve(&disk, data + used, size - used);
	if (fstat(disk.fd, &st) < 0 || st.st_size != (off_t)sizeof(image))
		abort();
	if (disk.read_only && (pread(disk.fd, after, sizeof(after), 0) != (ssize_t)sizeof(after) ||
			       memcmp(image, after, sizeof(image))))
		abort();
	close(disk.fd);
	return 0;
}
