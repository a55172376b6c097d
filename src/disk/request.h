/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to a disk: what they do to the image, apart from how they come. */
#pragma once

#include "disk/diskd.h"
#include "virtio/virtqueue.h"

struct disk {
	int fd;
	bool read_only;
	uint64_t sectors;
};

/*
 * disk_serve() - serve one request: the chain's readable part is its header and what is written,
 * the writable one what is read and then the status.
 * Returns the bytes written to the writable part; 0 where there is not even room for a status.
 */
uint32_t disk_serve(const struct disk *disk, struct chain *chain);
