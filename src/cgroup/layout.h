/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which hierarchies there are and where they are mounted. Looked up once a process. */
#pragma once

#include "cgroup/cgroup.h"

#include <stddef.h>

#define CGROUP_MOUNT	"/sys/fs/cgroup"
#define CGROUP_NAME_MAX 128

/* A mounted v1 hierarchy. */
struct hierarchy {
	char controllers[CGROUP_NAME_MAX]; /* as /proc/self/cgroup has it: "cpu,cpuacct" */
	char mount[CGROUP_NAME_MAX + 32];
};

struct layout {
	enum cgroup_layout kind;
	const char *unified; /* where v2 is mounted; NULL: nowhere */
	struct hierarchy v1[32];
	size_t n_v1;
};

/* layout_get() - never NULL; the same object each time. */
const struct layout *layout_get(void);

/* layout_find() - the v1 hierarchy that has a controller, or NULL. */
const struct hierarchy *layout_find(const struct layout *layout, const char *controller);

/* list_has() - whether a name is in a list such as "cpu,cpuacct" or "cpu io memory". */
bool list_has(const char *list, const char *name);

/*
 * layout_own() - the caller's own cgroup, as /proc/self/cgroup tells.
 * @controllers: which hierarchy, as in that file; "" for v2.
 *
 * Returns a string that the caller frees, or NULL with err set.
 */
char *layout_own(const char *controllers, struct err *err);

/* layout_of() - a process's v2 cgroup; the same otherwise. */
char *layout_of(pid_t pid, struct err *err);
