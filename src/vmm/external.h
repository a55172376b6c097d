/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices whose queues another process serves: a file system (virtio 1.2, 5.11) by fsd, a disk
 * (5.2) by diskd. What stays here is registers and configuration; the server is told where the
 * queues are and answers to the guest directly.
 */
#pragma once

#include "base/loop.h"
#include "vmm/device.h"
#include "vmm/vmm.h"

#define EXTERNAL_SERVERS_MAX VMM_DISK_QUEUES_MAX

struct external_device {
	struct device device;
	/* Sockets to the process: one for all the queues, or one for each. */
	struct source servers[EXTERNAL_SERVERS_MAX];
	unsigned int server_count;
};

/*
 * fs_init(), disk_init() - the sockets to the server stay the caller's. Where the server ends, so
 * does the loop, with an error. Return 0, or -1 with err set.
 * @request_queues: 1 to FSD_REQUEST_QUEUES_MAX, as its server was told.
 */
int fs_init(struct external_device *fs, struct loop *loop, int fd, unsigned int request_queues,
	    struct err *err);
int disk_init(struct external_device *disk, struct loop *loop, const struct vmm_disk *config,
	      struct err *err);
