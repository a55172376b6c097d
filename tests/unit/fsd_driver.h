/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole file server for unit tests, in a child as in a microVM, and its peers: a vmm that hands
 * over queues, a monitor that adds trees, a driver with rings in shared memory. What it does not do
 * fails the test.
 */
#pragma once

#include "virtio/memory.h"

#include <linux/fuse.h>
#include <stdbool.h>
#include <sys/types.h>

#define DRIVER_MEMORY	0x400000ull
#define DRIVER_SIZE	16u   /* of a queue */
#define DRIVER_PATIENCE 10000 /* ms */
#define DRIVER_QUEUES	3

/* Where the parts of the queue are that is driven now. */
#define DRIVER_BASE(f)	((f)->queue * 0x80000u)
#define DRIVER_DESC(f)	(DRIVER_BASE(f) + 0x1000u)
#define DRIVER_AVAIL(f) (DRIVER_BASE(f) + 0x2000u)
#define DRIVER_USED(f)	(DRIVER_BASE(f) + 0x3000u)
#define DRIVER_IN(f)	(DRIVER_BASE(f) + 0x10000u)
#define DRIVER_OUT(f)	(DRIVER_BASE(f) + 0x40000u)

struct fsd_driver {
	char directory[64];
	int memory_fd, vmm_fd, monitor_fd, kick[DRIVER_QUEUES], call[DRIVER_QUEUES];
	struct guest_memory memory;
	pid_t pid;
	uint32_t queue; /* number of the one that is driven */
	uint16_t used[DRIVER_QUEUES];
};

/* For cmocka: *state is a struct fsd_driver, whose server has no queue and no tree yet. */
int driver_setup(void **state);
int driver_teardown(void **state);

/* driver_at() - the guest's memory. */
void *driver_at(struct fsd_driver *f, uint64_t gpa);

/* driver_hears() - whether something comes within so many milliseconds. */
bool driver_hears(int fd, int timeout);

/* The monitor's part: driver_add_tree() returns the index that the server gave. */
uint32_t driver_add_tree_as(struct fsd_driver *f, uint32_t index, uint32_t flags, const char *path);
uint32_t driver_add_tree(struct fsd_driver *f, uint32_t index, const char *path);

/* The vmm's: the first queue alone is handed over, with its table at desc; all are taken back. */
void driver_start(struct fsd_driver *f, uint64_t desc);
void driver_reset(struct fsd_driver *f);

/* driver_put() - request number `slot` into the ring. driver_offer() - any descriptor. */
void driver_put(struct fsd_driver *f, uint16_t slot, uint32_t opcode, uint64_t node,
		const void *arg, uint32_t size);
void driver_offer(struct fsd_driver *f, uint16_t head);
void driver_kick(struct fsd_driver *f);

/* driver_get() - wait until `count` more requests have come back; the first one's answer. */
const struct fuse_out_header *driver_get(struct fsd_driver *f, unsigned int count);

/* driver_init() - FUSE_INIT. driver_lookup() - the node of a name, whose answer is `error`. */
void driver_init(struct fsd_driver *f);
uint64_t driver_lookup(struct fsd_driver *f, uint64_t dir, const char *name, int error);
