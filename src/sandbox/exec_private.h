/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the two sides of a further process share: exec.c is the parent's, exec_child.c its own. */
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
	uint64_t joined; /* CLONE_NEW* that the child is in from its beginning, but for the pid's */
	uint64_t namespaces; /* CLONE_NEW* in which the container's differ from ours */
	int proc;
	int init; /* pidfd */
	int own_pid_namespace;
	int sync;
};

/* exec_child() - the process, from its first instruction to its program. */
_Noreturn void exec_child(struct exec *exec);
