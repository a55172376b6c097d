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

struct oci_device;
struct oci_linux;
struct oci_linux_resources;

enum cgroup_layout { CGROUP_NONE, CGROUP_V1, CGROUP_HYBRID, CGROUP_V2 };

/*
 * cgroup_layout() - what /sys/fs/cgroup is: v2, v1, or v1 with an unused v2 tree beside (hybrid).
 */
enum cgroup_layout cgroup_layout(void);

/*
 * cgroup_resolve() - the path for a container.
 *
 * @config: may be NULL.
 *
 * From its cgroupsPath: an absolute one starts at the root of each hierarchy, a relative one
 * beside the caller's own cgroup (in its parent: a v2 cgroup that has processes, and the caller's
 * has one, cannot pass controllers on to those below it). Without one: "moat/ID", relative.
 * Returns a string that the caller frees, or NULL with err set.
 */
char *cgroup_resolve(const struct oci_linux *config, const char *id, struct err *err);

/*
 * cgroup_below() - a cgroup below a container's own, as `exec --cgroup` names it.
 * @path: the container's; NULL: it has none.
 * @below: a path that is to stay below it; NULL or empty: the container's own is meant.
 * @result: a string that the caller frees, or NULL where none is meant.
 * Returns 0, or -1 with err set.
 */
int cgroup_below(const char *path, const char *below, char **result, struct err *err);

/*
 * cgroup_where() - where below @path a process is, else @path itself; v2 only. To be freed.
 *
 * A container's own manager (systemd) divides what it was given, and from then on the cgroup at
 * the top may have no processes (admin-guide/cgroup-v2, "No Internal Process Constraint"): who
 * comes later goes where the first process is.
 */
char *cgroup_where(const char *path, pid_t pid);

/*
 * cgroup_delegate() - give a cgroup to a user, who may make others below it and move processes
 * between them; v2 only, elsewhere nothing is done.
 * @most: how many others; 0: as many as he likes. Returns 0, or -1 with err set.
 */
int cgroup_delegate(const char *path, uid_t owner, unsigned int most, struct err *err);

/* cgroup_may_create() - whether the caller may make it, in every hierarchy. */
bool cgroup_may_create(const char *path);

/*
 * cgroup_create() - make the cgroup in every hierarchy and set its limits.
 * @resources: may be NULL.
 *
 * A cgroup that exists and has processes in it is an error, as is any limit that this machine
 * cannot keep. Returns 0, or -1 with err set and the cgroup gone again.
 */
int cgroup_create(const char *path, const struct oci_linux_resources *resources, struct err *err);

/* cgroup_adopt() - set the limits of a cgroup v2 that another has made for us. 0, or -1. */
int cgroup_adopt(const char *path, const struct oci_linux_resources *resources, struct err *err);

/*
 * cgroup_device_access() - what resources.devices lets a container do with a device by its numbers.
 * Returns 0, or -1 with err set where the rules make no sense.
 *
 * cgroup_allows_every_device() - whether a rule allows them all, as --privileged of engines does.
 */
int cgroup_device_access(const struct oci_linux_resources *resources,
			 const struct oci_device *device, bool *read, bool *write, struct err *err);
bool cgroup_allows_every_device(const struct oci_linux_resources *resources);

/* cgroup_update() - set the limits that resources names, leaving the others. 0, or -1. */
int cgroup_update(const char *path, const struct oci_linux_resources *resources, struct err *err);

/*
 * cgroup_enter() - move a process into the cgroup, in every hierarchy.
 * @pid: 0 for the caller, which must have one thread only. That is the quick way: moving another
 *       process makes the kernel wait for all CPUs, some ten milliseconds. A child made with
 *       CLONE_INTO_CGROUP calls this for the v1 hierarchies; on v2 it finds nothing left to do.
 *
 * To be done before unshare(CLONE_NEWCGROUP): a cgroup namespace begins where its maker is then.
 * Returns 0, or -1 with err set.
 */
int cgroup_enter(const char *path, pid_t pid, struct err *err);

/* cgroup_enter_v1() - the same for a caller that clone3(2) has put into the v2 hierarchy's. */
int cgroup_enter_v1(const char *path, struct err *err);

/*
 * cgroup_open() - the directory in the v2 hierarchy (on a hybrid host the one without controllers,
 * by which processes are kept track of), for clone3(2)'s CLONE_INTO_CGROUP.
 * Returns an O_PATH descriptor, or -1 with errno set: ENOENT where there is no v2 hierarchy.
 */
int cgroup_open(const char *path);

/* cgroup_directory() - where all of its processes are listed and frozen. To be freed; NULL:
 * nowhere. */
char *cgroup_directory(const char *path);

/*
 * cgroup_signal() - send a signal to every process in it and below. Frozen ones get it when they
 * are thawed; SIGKILL ends them at once. 0 (also where there is no process), or -1 with err set.
 */
int cgroup_signal(const char *path, int signal, struct err *err);

/*
 * cgroup_let_die() - let frozen processes that were killed end: v2 does so by itself, v1 holds them
 * until they are thawed. To be called after SIGKILL has been sent to some of them.
 */
void cgroup_let_die(const char *path);

/*
 * cgroup_is_empty() - whether no process is left in it and below that has not ended, for all that
 * some may wait to be reaped. Also where there is no such cgroup.
 */
bool cgroup_is_empty(const char *path);

/*
 * cgroup_processes() - the pids of the processes in it and below.
 * @pids: an array to be freed; NULL where there is none. 0 stands for a process of another pid
 *        namespace. Returns 0, or -1 with err set.
 */
int cgroup_processes(const char *path, pid_t **pids, size_t *count, struct err *err);

/*
 * cgroup_freeze() - stop or resume every process in it, and wait until it is so.
 * What does not stop in some seconds is resumed, and an error. Returns 0, or -1 with err set.
 */
int cgroup_freeze(const char *path, bool frozen, struct err *err);

/*
 * cgroup_remove() - kill what is left in it and remove it, with what lies below.
 * Waits some seconds for processes to end; the error names one that does not. Already gone is no
 * error. Returns 0, or -1 with err set.
 */
int cgroup_remove(const char *path, struct err *err);

/* cgroup_remove_empty() - remove it where there is nothing in it, and nothing else. */
void cgroup_remove_empty(const char *path);
