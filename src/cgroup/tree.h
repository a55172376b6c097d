/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One cgroup in one hierarchy, as the directory that it is: making it, the processes in it and
 * below, removing it. "Directory" is its absolute path.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A cgroup's path in a hierarchy mounted at mount; to be freed. */
char *tree_directory(const char *mount, const char *path);

/* tree_open() - its directory, O_RDONLY. Returns a descriptor, or -1 with err set. */
int tree_open(const char *directory, struct err *err);

/*
 * tree_make() - make it, with its parents.
 * @mount: the hierarchy's root, which directory begins with.
 * @parents: set where a parent had to be made, too; else left alone.
 *
 * One that is there already and has no process in it or below is made anew, or taken as it is if
 * we may not remove it. Returns 0, or -1 with err set.
 */
int tree_make(const char *mount, const char *directory, bool *parents, struct err *err);

/*
 * tree_signal() - send a signal to every process in it and below; 0 only counts them.
 * Returns their number, or -1 with err set; a cgroup that is gone has none.
 */
int tree_signal(const char *directory, int signal, struct err *err);

/* tree_processes() - the pids in it and below; *pids is to be freed. 0, or -1 with err set. */
int tree_processes(const char *directory, pid_t **pids, size_t *count, struct err *err);

/*
 * tree_remove() - remove it and what is below, trying again until the deadline while there are
 * processes in it.
 * @deadline: as tree_clock().
 * @kill: end what is found meanwhile (where the kernel has no cgroup.kill to do it at once).
 *
 * Returns 0, or -1 with err set: the message names a process that is in the way.
 */
int tree_remove(const char *directory, uint64_t deadline, bool kill, struct err *err);

/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t tree_clock(void);

/* tree_wait_event() - wait until a line, such as "populated 0", is in cgroup.events (v2). */
int tree_wait_event(int dirfd, const char *line, uint64_t deadline);
