/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File system device (virtio 1.2, 5.11), the part that stays here: registers and configuration.
 * Its queues are served by fsd, which is told where they are and answers to the guest directly.
 */
#pragma once

#include "base/loop.h"
#include "vmm/device.h"

struct fs_device {
	struct device device;
	struct source server; /* the socket to fsd */
};

/*
 * fs_init() - fd is the socket to fsd and stays the caller's. Where fsd ends, so does the loop,
 * with an error. Returns 0, or -1 with err set.
 */
int fs_init(struct fs_device *fs, struct loop *loop, int fd, struct err *err);
