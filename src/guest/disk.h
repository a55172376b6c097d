/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Disks of the machine: the one whose file system is the container's root (vm.image), and others.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct oci_device;
struct oci_linux;

#define DISK_ROOT     "/run/moat/disk" /* where the root is mounted */
#define DISK_BLOCKS   "/sys/block"
#define DISK_NAME_MAX 32

/*
 * disk_find() - the disk of a number, by what it calls itself.
 * @blocks: a directory as DISK_BLOCKS.
 * @name: set to its name in that directory and in /dev.
 *
 * Returns 0, or -1 with err set.
 */
int disk_find(const char *blocks, unsigned int number, char name[DISK_NAME_MAX], dev_t *device,
	      struct err *err);

/* disk_mount_root() - with whichever file system it holds. Returns 0, or -1 with err set. */
int disk_mount_root(bool read_only, struct err *err);

/* disk_unmount_root() - if it is mounted: so that it need not be recovered next time. */
void disk_unmount_root(void);

/*
 * disk_make_node() - a device of a container with a user namespace, in the guest's own /dev, with
 * its mode and owner. Returns 0, or -1 with err set.
 */
int disk_make_node(const struct oci_device *device, const struct oci_linux *config,
		   struct err *err);
