/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * diskd, the server of block devices (virtio 1.2, 5.2): a process that holds the descriptors of
 * disk images and nothing else. A disk's queue is handed over by the vmm as a file system's is.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define DISK_SECTOR	512u
#define DISK_QUEUES	1u
#define DISK_QUEUE_SIZE 128u
/* What one request to discard or zero may cover: the others wait meanwhile. */
#define DISK_ZERO_SECTORS_MAX (1u << 21) /* 1 GiB */

struct diskd_config {
	int image_fd; /* a regular file or block device, open to read, and to write if not: */
	bool read_only;
	uint64_t sectors;     /* of DISK_SECTOR bytes */
	int vmm_fd;	      /* SOCK_SEQPACKET: struct fs_queue_setup; its end ends diskd */
	int memory_fd;	      /* guest RAM */
	uint64_t memory_size; /* bytes */
};

/*
 * The jail of diskd: no capability, an empty root, a user of its own. What it needs from
 * diskd_run() on:
 *
 *   epoll_wait epoll_ctl recvmsg write   the loop, queues from the vmm, interrupts, log lines
 *   preadv pwritev fdatasync fallocate   the image
 *   close mmap munmap brk exit_group     what every process needs
 */
struct diskd;
/* diskd_setup() - Returns a server, or NULL with err set. The descriptors stay the caller's. */
struct diskd *diskd_setup(const struct diskd_config *config, struct err *err);
/* diskd_run() - serve until the vmm is gone. Returns 0, or -1 with err set. */
int diskd_run(struct diskd *diskd, struct err *err);
void diskd_free(struct diskd *diskd);
