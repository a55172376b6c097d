/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * diskd, the server of block devices (virtio 1.2, 5.2): a process that holds the descriptors of
 * disk images and block devices and nothing else. A disk's queue is handed over by the vmm as a
 * file system's is, over a socket of its own, and has a thread of its own.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define DISK_SECTOR	 512u
#define DISK_QUEUES_MAX	 4u
#define DISK_QUEUE_SIZE	 128u
#define DISKD_QUEUES_MAX 28u /* of all disks of a machine */
/* What one request to discard or zero may cover: the others wait meanwhile. */
#define DISK_ZERO_SECTORS_MAX (1u << 21) /* 1 GiB */
/* A disk's number, as its name: what a driver asks for to tell disks apart (GET_ID). */
#define DISK_NAME "moat-%u"

struct diskd_config {
	int memory_fd;	      /* guest RAM */
	uint64_t memory_size; /* bytes */
	/* One for each queue. */
	struct diskd_queue {
		/* SOCK_SEQPACKET: struct fs_queue_setup; the first one's end ends diskd. */
		int vmm_fd;
		unsigned int disk; /* number of the disk */
		int image_fd;	   /* a file or block device, open to read, and to write if not: */
		bool read_only;
		/*
		 * The same file open for direct I/O, -1: none. What does not consist of whole
		 * blocks goes by image_fd.
		 */
		int direct_fd;
		uint32_t block_size; /* bytes, of direct I/O: a power of two, 512 to 64 KiB */
		uint64_t sectors;    /* of DISK_SECTOR bytes */
	} queue[DISKD_QUEUES_MAX];
	unsigned int queues;
};

/*
 * The jail of diskd: no capability, an empty root, a user of its own. In this order: diskd_setup();
 * the jail's walls; diskd_start(); the filter; diskd_run(). What it needs from then on:
 *
 *   epoll_wait epoll_ctl recvmsg write   the loops, queues from the vmm, interrupts, log lines
 *   preadv pwritev fdatasync fallocate   the images
 *   ioctl                                BLKDISCARD alone
 *   futex                                locks of the C library
 *   close mmap munmap brk exit_group     what every process needs
 */
struct diskd;
/* diskd_setup() - Returns a server, or NULL with err set. The descriptors stay the caller's. */
struct diskd *diskd_setup(const struct diskd_config *config, struct err *err);
/*
 * diskd_start() - make the threads of all queues but the first. The first of them that ends ends
 * the process. Returns 0, or -1 with err set.
 */
int diskd_start(struct diskd *diskd, struct err *err);
/* diskd_run() - serve until the vmm is gone. Returns 0, or -1 with err set. */
int diskd_run(struct diskd *diskd, struct err *err);
/* diskd_free() - of a server that has made no threads. */
void diskd_free(struct diskd *diskd);
