/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one piece of /proc that fsd needs: names for its own descriptors. */
#pragma once

#include "base/err.h"

/*
 * procfs_open_fds() - /proc/self/fd of a procfs that is mounted nowhere, read-only, and has
 * processes only: no sys, no sysrq-trigger, nothing of the kernel's to write to, should ".." be
 * tried by whoever has taken fsd over. Needs CAP_SYS_ADMIN.
 *
 * Returns an O_PATH descriptor, or -1 with err set.
 */
int procfs_open_fds(struct err *err);
