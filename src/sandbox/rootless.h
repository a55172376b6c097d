/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an ordinary user's containers need to be done in another way than root's. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct oci_linux;

/*
 * rootless() - whether the caller may do nothing in its own namespaces (it lacks CAP_SYS_ADMIN),
 * so that all has to be done in those of a user namespace that it makes.
 */
bool rootless(void);

/*
 * rootless_map_ids() - write the id maps of a new user namespace: the caller's own id alone by
 * itself (setgroups(2) is then denied inside), others through newuidmap(1) and newgidmap(1), which
 * give what /etc/subuid and /etc/subgid grant the caller.
 * @pid: a process in it. @proc: the caller's procfs. Returns 0, or -1 with err set.
 */
int rootless_map_ids(const struct oci_linux *config, int proc, pid_t pid, struct err *err);

/*
 * rootless_processes() - the processes in the pid namespace of init, and in those below it: for a
 * container that has no cgroup to find them by.
 * @pids: an array to be freed. Returns 0, or -1 with err set.
 */
int rootless_processes(pid_t init, pid_t **pids, size_t *count, struct err *err);
