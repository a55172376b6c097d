/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A further process: it is in the hands of what runs in the container, and must not be looked into.
 */
#include "sandbox/annotations.h"
#include "sandbox/exec_private.h"
#include "sandbox/protocol.h"

#include "base/fd.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* While the host's files are in sight. */
static int enter(const struct exec *exec, struct err *err)
{
	if (affinity_begin(&exec->process, err) < 0)
		return -1;
	return exec->cgroup ? cgroup_enter(exec->cgroup, 0, err) : 0;
}

static int join(const struct exec *exec, struct err *err)
{
	int others = (int)(exec->namespaces & ~exec->joined);

	if ((exec->enters && enter(exec, err) < 0) || affinity_finish(&exec->process, err) < 0)
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "guard the process");
	if (others && setns(exec->init, others) < 0)
		return err_set(err, errno, "join the namespaces of container %s", exec->params->id);
	if ((exec->namespaces & CLONE_NEWUSER) &&
	    (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		return err_set(err, errno, "become root of the user namespace");
	if (setsid() < 0)
		return err_set(err, errno, "start a session");
	return exec->params->no_new_keyring ? 0 : process_join_keyring(exec->params->id, err);
}

/* The user by its name inside: beside the groups that it has there, those asked for. */
static int set_user(struct exec *exec, int root, struct err *err)
{
	struct oci_user *user = &exec->user;
	struct identity identity;
	size_t total;

	if (!exec->params->user)
		return 0;
	if (identity_look_up(root, exec->params->user, &identity, err) < 0)
		return -1;
	user->uid = identity.uid;
	user->gid = identity.gid;
	total = identity.n_groups + user->n_additional_gids;
	identity.groups = xrealloc(identity.groups, total + 1, sizeof(*identity.groups));
	for (size_t i = 0; i < user->n_additional_gids; i++)
		identity.groups[identity.n_groups + i] = user->additional_gids[i];
	user->additional_gids = identity.groups; /* ours until execve(2) */
	user->n_additional_gids = total;
	return 0;
}

static int become(struct exec *exec, struct process_plan *plan, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;
	struct oci_process *process = &exec->process;
	_cleanup_fd_ int root = -1;

	if (join(exec, err) < 0)
		return -1;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_set(err, errno, "open the container's root");
	if (set_user(exec, root, err) < 0)
		return -1;
	plan->home = user_home(process, root);
	plan->terminal = -1;
	if (process->terminal) {
		plan->terminal = terminal_open(process, root, params->console_socket, false, err);
		if (plan->terminal < 0)
			return -1;
	}
	for (int i = 0; i < 3; i++)
		plan->stdio[i] = params->stdio[i];
	fd_replace(&root, -1); /* none of ours is to be a way for the working directory */
	return process_become(plan, err);
}

_Noreturn void exec_child(struct exec *exec)
{
	struct report report = { .kind = REPORT_FAILED };
	struct process_plan plan = {
		.process = &exec->process,
		.capabilities = &exec->capabilities,
		.seccomp = &exec->seccomp,
		.ceiling = &exec->ceiling,
		.hardening = exec->params->hardening,
		.listener = &exec->listener,
		.linux_ = exec->params->config->linux_,
		.proc = exec->proc,
		.preserve_fds = exec->params->preserve_fds,
		.keep_groups = crun_annotation_keeps_groups(exec->params->config),
	};
	char byte;

	process_reset_signals();
	if (fd_read_full(exec->sync, &byte, 1) != 1) /* the parent is gone */
		_exit(EXIT_FAILURE);
	if (become(exec, &plan, &report.err) == 0 && process_wall(&plan, &report.err) == 0)
		process_execute(&plan, &report.err);
	send(exec->sync, &report, sizeof(report), MSG_NOSIGNAL); /* if the parent is there */
	_exit(EXIT_FAILURE);
}
