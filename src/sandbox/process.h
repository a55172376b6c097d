/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What makes a process the one that config.json's `process` describes: for a container's init and
 * for each process that joins it later. To be called inside the container's root.
 */
#pragma once

#include "sandbox/capabilities.h"
#include "sandbox/seccomp.h"

#include "base/err.h"

struct oci_process;

struct process_plan {
	const struct oci_process *process;
	const struct capability_sets *capabilities;
	const struct seccomp_filter *seccomp;
	int proc;	  /* the caller's procfs */
	int terminal;	  /* becomes 0, 1 and 2; -1 */
	int stdio[3];	  /* else these do; none is -1 */
	int preserve_fds; /* descriptors 3 .. 2+N stay open across execve(2) */
	const char *home; /* for an environment without HOME; NULL */
	char *program;	  /* found by process_become(): path to be executed */
};

/*
 * process_become() - take on streams, limits, user, groups, capabilities, working directory and
 * find the program; the caller then only waits for its turn.
 */
int process_become(struct process_plan *plan, struct err *err);

/* process_execute() - load the filter and execute. Returns only on failure: -1. */
int process_execute(const struct process_plan *plan, struct err *err);

/* process_error() - give err the code that tells why a program cannot be executed; -1. */
int process_error(struct err *err, int code, const char *program);

/* Its parts: rlimits.c, user.c, scheduling.c, lsm.c, program.c. */
int rlimits_apply(const struct oci_process *process, struct err *err);
int user_become(const struct oci_process *process, struct err *err);
int scheduling_apply(const struct oci_process *process, struct err *err);
int lsm_check(const struct oci_process *process, int proc, struct err *err);
int lsm_apply(const struct oci_process *process, int proc, struct err *err);
char *program_find(const struct oci_process *process, struct err *err);

/*
 * user_home() - home directory of a user by the root's /etc/passwd; "/" if it is not there.
 * The file is the image's: its kind and size are checked. Returns a string to be freed.
 */
char *user_home(int rootfd, unsigned int uid);
