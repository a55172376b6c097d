/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shares of the processors' cache and memory bandwidth: groups in the resctrl file system
 * (filesystems/resctrl of the kernel's documentation; config-linux, "IntelRdt").
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct oci_intel_rdt;

/*
 * resctrl_find() - where resctrl is mounted.
 * @given: the operator's word for it, or NULL: as mountinfo tells.
 *
 * Returns a path to be freed, or NULL with err set.
 */
char *resctrl_find(const char *given, struct err *err);

/*
 * resctrl_prepare() - make the container's groups, or check those that have to be there.
 * @root: as resctrl_find() gave it, here and below.
 * @id: the container's, which its groups are named by where config.json does not name one.
 * @state_fd: its state directory, where what is made is noted for resctrl_release().
 *
 * Returns 0, or -1 with err set and nothing made.
 */
int resctrl_prepare(const char *root, const struct oci_intel_rdt *config, const char *id,
		    int state_fd, struct err *err);

/*
 * resctrl_settle() - the container is there: a group that config.json names stays from now on, as
 * others may come to it. 0, or -1.
 */
int resctrl_settle(const char *root, const struct oci_intel_rdt *config, const char *id,
		   int state_fd, struct err *err);

/* resctrl_join() - put a process, and its children to come, into the groups. 0, or -1. */
int resctrl_join(const char *root, const struct oci_intel_rdt *config, const char *id, pid_t pid,
		 struct err *err);

/*
 * resctrl_update() - change the shares of the container's group.
 * @l3, @bandwidth: as l3CacheSchema and memBwSchema of config.json; NULL: as it is.
 */
int resctrl_update(const char *root, const struct oci_intel_rdt *config, const char *id,
		   const char *l3, const char *bandwidth, struct err *err);

/*
 * resctrl_release() - remove what resctrl_prepare() made and resctrl_settle() did not let go.
 * Returns 0, also where there is nothing; or -1 with err set.
 */
int resctrl_release(int state_fd, struct err *err);
