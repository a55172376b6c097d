/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a cgroup has used, and its word when memory ran out. */
#pragma once

#include "base/err.h"

#include <stdint.h>

struct moat_stats;

/*
 * cgroup_stats() - the use of CPU, memory, processes and block devices so far.
 * @path: as cgroup_resolve() gave it.
 *
 * What a controller that is not there would have told is 0. Returns a struct for
 * moat_stats_free(), or NULL with err set.
 */
struct moat_stats *cgroup_stats(const char *path, struct err *err);

/*
 * cgroup_oom_open() - the file that counts the processes of a cgroup which the OOM killer has
 * ended. Returns it, the caller's to close, or -1 with err set.
 */
int cgroup_oom_open(const char *path, struct err *err);

/* cgroup_oom_read() - read it: only once, for there need be no right to seek. 0 if unknown. */
uint64_t cgroup_oom_read(int fd);

/*
 * cgroup_oom_watch() - a descriptor that becomes readable each time memory runs out in the cgroup,
 * and when it is removed. Read what it has before waiting again.
 * Returns it, the caller's to close, or -1 with err set.
 */
int cgroup_oom_watch(const char *path, struct err *err);
