/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The disk whose file system is the container's root (vm.image). */
#pragma once

#include "base/err.h"

#include <stdbool.h>

#define DISK_ROOT "/run/moat/disk" /* where it is mounted */

/* disk_mount_root() - with whichever file system it holds. Returns 0, or -1 with err set. */
int disk_mount_root(bool read_only, struct err *err);

/* disk_unmount_root() - if it is mounted: so that it need not be recovered next time. */
void disk_unmount_root(void);
