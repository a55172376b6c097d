/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a further process comes to be. From its beginning it is in the pid namespace, and so in the
 * sight of what runs in the container, which may have CAP_SYS_PTRACE and thus all that the process
 * has: so there is nothing of the host in it. A process of its own goes into the other namespaces
 * first, through the pidfd of the container's init, all at once, and clones the child from there as
 * one of ours. (An ordinary user could join the pid namespace in no other way.)
 */
#include "sandbox/exec_private.h"
#include "sandbox/rootless.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLONE_TRIES 3

/* What the broker says at its end. */
struct outcome {
	pid_t pid; /* -1: none, and why */
	struct err err;
};

/*
 * Where the child can be cloned into its cgroup, that is opened here, as long as the host's files
 * are in sight. -1: it has to be entered; a time before that has an affinity of its own.
 */
static int open_cgroup(const struct exec *exec)
{
	if (!exec->cgroup || cgroup_layout() != CGROUP_V2 ||
	    (exec->process.exec_cpu_affinity && exec->process.exec_cpu_affinity->initial))
		return -1;
	return cgroup_open(exec->cgroup);
}

static pid_t clone_child(int cgroup, uint64_t extra)
{
	struct clone_args args = { .flags = CLONE_CLEAR_SIGHAND | extra,
				   .exit_signal = extra & CLONE_PARENT ? 0 : SIGCHLD };

	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Nothing that is not needed: others wait for the ends of the caller's streams, too. */
static void close_others(struct exec *exec, int channel, int cgroup)
{
	const struct sandbox_exec_params *params = exec->params;
	bool profile = exec->process.apparmor_profile && *exec->process.apparmor_profile;
	const int keep[] = { exec->sync,
			     profile ? exec->proc : -1, /* is written to by the child itself */
			     exec->init,
			     params->stdio[0],
			     params->stdio[1],
			     params->stdio[2],
			     params->console_socket,
			     log_fd(),
			     channel,
			     cgroup };

	if (!profile)
		exec->proc = -1;
	fd_close_except(3 + params->preserve_fds, keep, ARRAY_LEN(keep));
}

/*
 * All but the cgroup's, from within which it could not be cloned into its cgroup, and the user's,
 * in which it would have no rights over the others: unless the caller has none outside of it.
 */
static uint64_t first_namespaces(const struct exec *exec)
{
	uint64_t later = CLONE_NEWCGROUP | (rootless() ? 0 : CLONE_NEWUSER);

	return exec->namespaces & ~later;
}

static pid_t broker(struct exec *exec, int channel, int cgroup, struct err *err)
{
	pid_t pid;

	/* An ordinary user could not set it of a process that must not be looked into. */
	if (process_set_oom_score(&exec->process, exec->proc, getpid(), err) < 0)
		return -1;
	close_others(exec, channel, cgroup);
	if (affinity_begin(&exec->process, err) < 0)
		return -1;
	/* Before it can be seen: what it has is more than anybody's in the container. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "guard the process");
	exec->joined = first_namespaces(exec);
	if (setns(exec->init, (int)exec->joined) < 0)
		return err_set(err, errno, "join the namespaces of container %s", exec->params->id);
	pid = clone_child(cgroup, CLONE_PARENT);
	if (pid < 0)
		return err_set(err, errno, "make a process in container %s", exec->params->id);
	if (pid == 0) {
		close(channel);
		fd_replace(&cgroup, -1);
		exec_child(exec);
	}
	return pid;
}

static pid_t ask_broker(struct exec *exec, int child_end, int cgroup, struct err *err)
{
	struct outcome outcome = { .pid = -1 };
	int channel[2];
	ssize_t n;
	pid_t pid;

	if (fd_socketpair(SOCK_STREAM, channel) < 0)
		return err_set(err, errno, "make a socket pair");
	pid = fork();
	if (pid == 0) {
		fd_replace(&channel[0], -1);
		fd_replace(&exec->sync, child_end);
		outcome.pid = broker(exec, channel[1], cgroup, &outcome.err);
		_exit(fd_write_full(channel[1], &outcome, sizeof(outcome)) < 0);
	}
	close(channel[1]);
	n = pid < 0 ? -1 : fd_read_full(channel[0], &outcome, sizeof(outcome));
	close(channel[0]);
	if (pid < 0)
		return err_set(err, errno, "make a process");
	proc_wait(pid);
	if (n != (ssize_t)sizeof(outcome))
		return err_set(err, 0,
			       "run a process in container %s: it was killed before its program "
			       "began",
			       exec->params->id);
	if (outcome.pid < 0)
		*err = outcome.err;
	return outcome.pid;
}

/* From here, since the child cannot see the host's files, and may be frozen there. */
static int move(const struct exec *exec, pid_t child, struct err *err)
{
	if (!exec->cgroup || cgroup_enter(exec->cgroup, child, err) == 0)
		return 0;
	kill(child, SIGKILL);
	proc_wait(child);
	return -1;
}

static pid_t spawn(struct exec *exec, int child_end, struct err *err)
{
	_cleanup_fd_ int cgroup = open_cgroup(exec);
	bool seen = exec->namespaces & CLONE_NEWPID;
	pid_t pid;

	if (seen || (exec->namespaces & CLONE_NEWUSER && rootless())) {
		pid = ask_broker(exec, child_end, cgroup, err);
		return pid > 0 && cgroup < 0 && move(exec, pid, err) < 0 ? -1 : pid;
	}
	exec->enters = true;
	pid = clone_child(cgroup, 0);
	if (pid == 0) {
		fd_replace(&exec->sync, child_end);
		close_others(exec, -1, -1);
		exec_child(exec);
	}
	return pid < 0 ? err_set(err, errno, "make a process in container %s", exec->params->id)
		       : pid;
}

/* The first process may be about to divide the cgroup: then it has just moved. */
pid_t exec_spawn(struct exec *exec, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;
	pid_t pid = -1;
	int pair[2];

	if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	exec->sync = pair[0];
	for (int i = 0; i < CLONE_TRIES && pid < 0 && (i == 0 || err->code == EBUSY); i++) {
		free(exec->cgroup);
		exec->cgroup = params->cgroup_path ? cgroup_where(params->cgroup_path, params->init)
						   : NULL;
		pid = spawn(exec, pair[1], err);
	}
	close(pair[1]);
	return pid;
}
