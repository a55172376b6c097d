/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is v1's own: several hierarchies. The container gets a cgroup in each that is mounted: in
 * one that is left out it would be in the root, and could see and, mounting it, change the host's.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct layout;
struct oci_linux_resources;

/* v1_create() - cgroup_create() in every v1 hierarchy. */
int v1_create(const struct layout *layout, const char *path,
	      const struct oci_linux_resources *resources, struct err *err);

/* v1_update() - cgroup_update(). */
int v1_update(const struct layout *layout, const char *path,
	      const struct oci_linux_resources *resources, struct err *err);

/* v1_enter() - cgroup_enter() in every v1 hierarchy. */
int v1_enter(const struct layout *layout, const char *path, pid_t pid, struct err *err);

/* v1_freeze() - cgroup_freeze() through the freezer controller. */
int v1_freeze(const struct layout *layout, const char *path, bool frozen, struct err *err);

/* v1_thaw() - let processes run that are to be killed; nothing where there is no freezer. */
void v1_thaw(const struct layout *layout, const char *path);
