/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the sides of a further process share: exec.c is the parent's, exec_spawn.c is how it is
 * made, exec_child.c its own.
 */
#pragma once

#include "sandbox/identity.h"
#include "sandbox/listener.h"
#include "sandbox/process.h"
#include "sandbox/sandbox.h"

#include "oci/config.h"

struct exec {
	const struct sandbox_exec_params *params;
	struct oci_process process; /* as given, but for the user; only borrows */
	struct oci_user user;
	struct capability_sets capabilities;
	struct seccomp_filter seccomp, ceiling;
	struct listener listener;
	char *cgroup;	 /* the container's, or the one below it in which the first process is */
	bool enters;	 /* the child has to enter the cgroup by itself */
	uint64_t joined; /* and in these namespaces, CLONE_NEW* */
	uint64_t namespaces; /* CLONE_NEW* in which the container's differ from ours */
	int proc;
	int init; /* pidfd */
	int sync;
};

/*
 * exec_spawn() - make the process, in the container's pid namespace; exec->sync is the parent's end
 * afterwards. Returns its pid, or -1 with err set.
 */
pid_t exec_spawn(struct exec *exec, struct err *err);

/* exec_child() - the process, from its first instruction to its program. */
_Noreturn void exec_child(struct exec *exec);
