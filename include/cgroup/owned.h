/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whose a cgroup is. Two containers may be given one cgroupsPath: the second cannot be made, and
 * cleaning up after it must not touch the first. A mark in the container's state directory, which
 * outlives whoever made the cgroup, says that it belongs to that container.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct container;
struct oci_linux_resources;

/*
 * cgroup_create_owned() - make the container's cgroup, or have systemd make it; then the mark.
 * A container without one: nothing is done. Returns 0, or -1 with err set and neither left.
 */
int cgroup_create_owned(const struct container *container,
			const struct oci_linux_resources *resources, struct err *err);

/*
 * cgroup_marked() - the path of the cgroup that the mark in a state directory is of; to be freed.
 * NULL: there is none, or it says nothing that could be a container's cgroup.
 */
char *cgroup_marked(int state_fd);

/* cgroup_settle_owned() - the container's first process is in it, or will not come to be. */
void cgroup_settle_owned(void);

/* cgroup_update_owned() - cgroup_update(), and the same for systemd. 0, or -1 with err set. */
int cgroup_update_owned(const struct container *container,
			const struct oci_linux_resources *resources, struct err *err);

/*
 * cgroup_remove_owned() - kill what is in it and remove it, then the mark goes.
 * @known: the cgroup is the container's for certain, whatever became of the mark.
 *
 * Without a mark a cgroup is only removed while it is empty. Returns 0, or -1 with err set.
 */
int cgroup_remove_owned(const struct container *container, bool known, struct err *err);
