/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control groups, v2, v1 and hybrid hosts behind one interface (cgroups(7), the kernel's
 * admin-guide/cgroup-v2 and cgroup-v1). A container's cgroup is named by a path below the root of
 * each hierarchy, "/moat/ID" for one.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct oci_linux;
struct oci_linux_resources;

enum cgroup_layout { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 };

/* cgroup_layout() - what /sys/fs/cgroup is: v2, v1, or v1 with an unused v2 tree beside (hybrid). */
enum cgroup_layout cgroup_layout(void);

/*
 * cgroup_resolve() - the path for a container: config's cgroupsPath (absolute: from the root;
 * relative: below the caller's own cgroup), or "/moat/ID" below it where there is none.
 *
 * Returns a string that the caller frees, or NULL with err set.
 */
char *cgroup_resolve(const struct oci_linux *linux, const char *id, struct err *err);

/*
 * cgroup_create() - make the cgroup in every hierarchy in use and set its limits.
 * @resources: may be NULL.
 *
 * A cgroup that exists and has processes in it is an error. Returns 0, or -1 with err set and
 * nothing left.
 */
int cgroup_create(const char *path, const struct oci_linux_resources *resources, struct err *err);

/* cgroup_update() - set the limits that resources names, leaving the others. 0, or -1. */
int cgroup_update(const char *path, const struct oci_linux_resources *resources, struct err *err);

/* cgroup_enter() - move a process into the cgroup, in every hierarchy. 0, or -1 with err set. */
int cgroup_enter(const char *path, pid_t pid, struct err *err);

/*
 * cgroup_open() - the v2 directory, for clone3(2)'s CLONE_INTO_CGROUP.
 * Returns an O_PATH descriptor, or -1 where there is no v2 hierarchy in use (errno ENOENT).
 */
int cgroup_open(const char *path);

/* cgroup_signal() - send a signal to every process in it and below; freezer-safe. 0, or -1. */
int cgroup_signal(const char *path, int signal, struct err *err);

/* cgroup_freeze() - stop or resume every process in it; waits until it is so. 0, or -1. */
int cgroup_freeze(const char *path, bool frozen, struct err *err);

/*
 * cgroup_remove() - kill what is left in it and remove it, with what lies below.
 * Waits a bounded time for processes to end. Already gone is no error. 0, or -1 with err set.
 */
int cgroup_remove(const char *path, struct err *err);
