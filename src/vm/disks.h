/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A disk image as the root file system (vm.image): opened for diskd, which serves it. */
#pragma once

#include "vm/spawn.h"

#include <stdbool.h>

struct oci_config;
struct vmm_config;

struct disk_image {
	int fd; /* -1: there is none */
	bool read_only;
	uint64_t sectors;
};

/*
 * disk_open() - vm.image, if config has one and the operator allows it (bundleImage). A raw image
 * only: what it holds is never looked at on the host, as the guest could have written that. It is
 * locked against another machine; two readers may share it.
 *
 * Returns 0, or -1 with err set.
 */
int disk_open(struct disk_image *disk, const struct oci_config *config, bool allowed,
	      struct err *err);

/*
 * disk_start() - fork diskd for it as that user; nothing where there is no disk.
 * @vmm_end: set to the vmm's end of their socket, owned by the caller; -1 where there is none.
 *
 * Returns 0, or -1 with err set.
 */
int disk_start(const struct disk_image *disk, struct child *diskd, uid_t uid, int memory_fd,
	       uint64_t memory_size, int *vmm_end, struct err *err);

/* disk_describe() - tell the vmm of it, with its end of the socket. */
void disk_describe(const struct disk_image *disk, int vmm_end, struct vmm_config *config);
