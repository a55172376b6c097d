/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to a disk: what they do to the image, apart from how they come. */
#pragma once

#include "disk/diskd.h"
#include "virtio/virtqueue.h"

/* Buffers of the guest that are not aligned for direct I/O go by way of one of ours. */
#define DISK_BOUNCE_SIZE (128u << 10)

struct disk {
	unsigned int number;
	int fd;
	bool is_device; /* of the host's, and no file */
	bool read_only;
	uint64_t sectors;
	bool direct;	     /* direct_fd is for whole blocks: */
	int direct_fd;	     /* may be fd itself */
	uint32_t block_size; /* a power of two, at most DISK_BLOCK_MAX */
	uint8_t *bounce;     /* DISK_BOUNCE_SIZE bytes, aligned; where there is direct I/O */
};

#define DISK_BLOCK_MAX (64u << 10)

/*
 * disk_serve() - serve one request: the chain's readable part is its header and what is written,
 * the writable one what is read and then the status.
 * Returns the bytes written to the writable part; 0 where there is not even room for a status.
 */
uint32_t disk_serve(const struct disk *disk, struct chain *chain);
