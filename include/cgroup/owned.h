/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a cgroup is. Two containers may be given one cgroupsPath: the second cannot be made, and
 * cleaning up after it must not touch the first. A mark in the container's state directory, which
 * outlives whoever made the cgroup, says that it belongs to that container.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct oci_linux_resources;

/*
 * cgroup_create_owned() - cgroup_create(), then the mark.
 * @path: NULL: the container has none, and nothing is done.
 * @state_fd: the container's state directory.
 * Returns 0, or -1 with err set and neither left.
 */
int cgroup_create_owned(const char *path, const struct oci_linux_resources *resources, int state_fd,
			struct err *err);

/*
 * cgroup_remove_owned() - cgroup_remove(), then the mark goes.
 * @known: the cgroup is the container's for certain, whatever became of the mark.
 *
 * Without a mark a cgroup is only removed while it is empty. Returns 0, or -1 with err set.
 */
int cgroup_remove_owned(const char *path, int state_fd, bool known, struct err *err);
