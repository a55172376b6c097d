/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What makes a process the one that config.json's `process` describes: for a container's init and
 * for each process that joins it later. To be called inside the container's root.
 */
#pragma once

#include "sandbox/capabilities.h"
#include "sandbox/listener.h"
#include "sandbox/seccomp.h"

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct hardening;
struct oci_linux;
struct oci_process;

struct process_plan {
	const struct oci_process *process;
	const struct capability_sets *capabilities;
	const struct seccomp_filter *seccomp;
	const struct seccomp_filter *ceiling; /* loaded as well, with hardening */
	const struct hardening *hardening;    /* NULL: as the config says */
	const struct listener *listener;      /* where the filter's is offered */
	const struct oci_linux *linux_;	      /* personality, memory policy; NULL: none */
	int proc;			      /* the caller's procfs */
	int terminal;			      /* becomes 0, 1 and 2; -1 */
	int stdio[3];			      /* else these do; none is -1 */
	int preserve_fds;		      /* descriptors 3 .. 2+N stay open across execve(2) */
	const char *home;		      /* for an environment without HOME; NULL */
	bool keep_groups;		      /* additional groups stay the caller's */
	bool walled;			      /* the wall has been entered */
	bool filtered;			      /* the filter is loaded */
	char *program;			      /* found by process_become(): path to be executed */
};

/*
 * process_become() - take on streams, limits, user, groups, capabilities, working directory and
 * find the program; the caller then only waits for its turn.
 */
int process_become(struct process_plan *plan, struct err *err);

/*
 * process_wall() - with hardening: go under Landlock and the level's own filter. That one lets a
 * further one be loaded, which the bundle's may not, so that it comes first.
 */
int process_wall(struct process_plan *plan, struct err *err);

/*
 * process_filter() - come under the seccomp filter (and the wall), which may forbid whatever
 * follows, or make it wait for an agent. 0, or -1 with err set.
 */
int process_filter(struct process_plan *plan, struct err *err);

/* process_execute() - the filter, unless it is loaded, and execve(2). Returns on failure: -1. */
int process_execute(struct process_plan *plan, struct err *err);

/* process_error() - give err the code that tells why a program cannot be executed; -1. */
int process_error(struct err *err, int code, const char *program);

/* Its parts: rlimits.c, user.c, scheduling.c, lsm.c, program.c. */
int rlimits_apply(const struct oci_process *process, struct err *err);
/*
 * rlimits_raise() - raise another process's hard limits to those asked for. In a user namespace it
 * cannot do that itself: the right that it takes is one of the host's.
 */
void rlimits_raise(const struct oci_process *process, pid_t pid);
int user_become(const struct oci_process *process, bool keep_groups, struct err *err);
int scheduling_apply(const struct oci_process *process, struct err *err);
int lsm_check(const struct oci_process *process, int proc, struct err *err);
int lsm_apply(const struct oci_process *process, int proc, struct err *err);
char *program_find(const struct oci_process *process, struct err *err);

/*
 * program_check_filter() - refuse a filter under which no program can begin, whatever it is: who
 * loads it ends there, and can often not even say so. 0, or -1 with err set.
 */
int program_check_filter(const struct seccomp_filter *filter, struct err *err);

/*
 * program_begun() - of a process whose end of a connection is closed: whether it was execve(2) that
 * did so. False with err set where it has ended before, as far as that can be seen.
 */
bool program_begun(pid_t pid, uint64_t start_time, struct err *err);

/*
 * process.execCPUAffinity. affinity_check() - whether its lists can be read. affinity_begin() -
 * before the process is in its cgroup; affinity_finish() - once it is. 0, or -1 with err set.
 */
int affinity_check(const struct oci_process *process, struct err *err);
int affinity_begin(const struct oci_process *process, struct err *err);
int affinity_finish(const struct oci_process *process, struct err *err);

/*
 * terminal_open() - a terminal of the root's devpts, whose master goes to the console socket.
 * @console: also bind it to /dev/console.
 * Returns the other end, or -1 with err set.
 */
int terminal_open(const struct oci_process *process, int rootfd, int console_socket, bool console,
		  struct err *err);

/* process_open_proc() - the caller's procfs, checked to be one. A descriptor, or -1. */
int process_open_proc(struct err *err);

/* process_reset_signals() - default dispositions and an empty mask. */
void process_reset_signals(void);

/* process_join_keyring() - a session keyring of the container's own, not the host's. 0, or -1. */
int process_join_keyring(const char *id, struct err *err);

/*
 * process_give_streams() - make pipes among the streams the property of a container's root: what
 * opens them anew (/dev/stdout) asks who they belong to. Done by the caller, who may.
 */
void process_give_streams(const int stdio[3], uint32_t owner);

/* process_set_oom_score() - for another process, as lowering it may take the caller's rights. */
int process_set_oom_score(const struct oci_process *process, int proc, pid_t pid, struct err *err);

/*
 * user_home() - home directory for an environment without HOME, by the root's /etc/passwd; "/" if
 * it is not there. The file is the image's: its kind and size are checked. Returns a string to be
 * freed, or NULL where HOME is set.
 */
char *user_home(const struct oci_process *process, int rootfd);
