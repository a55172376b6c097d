/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A further process in a running container, from the side of its parent, which joins nothing. */
#include "sandbox/exec_private.h"
#include "sandbox/exec_wait.h"
#include "sandbox/harden_private.h"
#include "sandbox/namespaces.h"
#include "sandbox/protocol.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "cgroup/resctrl.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

struct sandbox_exec {
	struct sandbox_exec_params params;
	struct exec exec;
	pid_t child;
};

/* The state is the container's, the process that the listener is for the new one. */
static int forward_listener(const struct exec *exec, pid_t pid, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;
	_cleanup_free_ char *state =
		params->describe(params->describe_context, params->init, "running");

	return listener_forward(&exec->listener, pid, params->config->linux_->seccomp, state, err);
}

static int hear_from(const struct exec *exec, pid_t pid, struct err *err)
{
	struct report report;
	uint64_t start_time;
	ssize_t n;
	struct err its;
	int forwarded = exec->listener.slot ? forward_listener(exec, pid, &its) : 0;

	if (forwarded < 0) { /* because of what the process has to tell, if it has */
		n = recv(exec->sync, &report, sizeof(report), MSG_DONTWAIT);
		*err = n == sizeof(report) ? report.err : its;
		err->text[sizeof(err->text) - 1] = '\0';
		return -1;
	}
	if (exec_wait(exec->sync, exec->params->signals_fd, err) < 0)
		return err_wrap(err, "run a process in container %s", exec->params->id);
	do
		n = recv(exec->sync, &report, sizeof(report), 0);
	while (n < 0 && errno == EINTR);
	if (n == 0 && proc_start_time(pid, &start_time, NULL) < 0)
		return 0;				   /* reaped, by who knows how it ended */
	if (n == 0 && program_begun(pid, start_time, err)) /* execve(2) closed the other end */
		return 0;
	if (n < 0 && errno == ECONNRESET) /* it ended with something of ours unread */
		err_set(err, 0, "it was killed before its program began");
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return err_wrap(err, "run a process in container %s", exec->params->id);
	if (n != sizeof(report))
		return err_set(err, 0, "run a process in container %s: its answer is malformed",
			       exec->params->id);
	report.err.text[sizeof(report.err.text) - 1] = '\0';
	*err = report.err;
	return -1;
}

/* The same wall that stands around the container's first process. */
static int prepare_wall(struct exec *exec, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;

	exec->process.no_new_privileges = true;
	if (params->hardening->id_base)
		process_give_streams(params->stdio, params->hardening->id_base);
	capabilities_limit(&exec->capabilities, params->hardening->capabilities);
	if (seccomp_filter_compile(params->hardening->ceiling, params->seccomp_cache,
				   &exec->ceiling, err) < 0)
		return err_wrap(err, "compile the filter of level sandbox");
	return wall_core_join(params->init, err); /* the child gets it from us */
}

static int prepare(struct exec *exec, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;
	const struct oci_linux *config = params->config->linux_;

	if (params->process->terminal && params->console_socket < 0)
		return err_set(err, 0,
			       "the process asks for a terminal, but there is no console "
			       "socket to send it to");
	if (affinity_check(params->process, err) < 0)
		return -1;
	exec->process = *params->process;
	exec->user = *params->process->user;
	exec->process.user = &exec->user;
	exec->proc = process_open_proc(err);
	if (exec->proc < 0 || lsm_check(params->process, exec->proc, err) < 0)
		return -1;
	exec->init = proc_pidfd(params->init);
	if (exec->init < 0)
		return err_set(err, errno == ESRCH ? ERR_NOT_RUNNING : errno,
			       "container %s is not running", params->id);
	if (namespaces_compare(exec->proc, params->init, &exec->namespaces, err) < 0)
		return -1;
	capabilities_read(params->process->capabilities, &exec->capabilities);
	if (config && config->seccomp &&
	    (seccomp_filter_compile(config->seccomp, params->seccomp_cache, &exec->seccomp, err) <
		     0 ||
	     program_check_filter(&exec->seccomp, err) < 0))
		return -1;
	if (params->hardening && prepare_wall(exec, err) < 0)
		return -1;
	if (!exec->seccomp.notify)
		return 0;
	return listener_prepare(&exec->listener, config->seccomp, params->describe, err);
}

/* Makes the child and lets it go. */
static int begin(struct exec *exec, pid_t *child, struct err *err)
{
	const struct sandbox_exec_params *params = exec->params;

	if (prepare(exec, err) < 0)
		return -1;
	*child = exec_spawn(exec, err);
	if (*child < 0 ||
	    (exec->enters && process_set_oom_score(params->process, exec->proc, *child, err) < 0))
		return -1;
	if (params->resctrl && resctrl_join(params->resctrl, params->config->linux_->intel_rdt,
					    params->id, *child, err) < 0)
		return -1;
	if (exec->namespaces & CLONE_NEWUSER)
		rlimits_raise(params->process, *child);
	/* A child that is gone already says more than the failure to write does. */
	if (send(exec->sync, "g", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return err_set(err, errno, "release the process");
	return 0;
}

static void give_up(pid_t child, bool wait)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	if (wait)
		proc_wait(child);
}

static void release(struct sandbox_exec *begun)
{
	struct exec *exec = &begun->exec;

	seccomp_filter_free(&exec->seccomp);
	seccomp_filter_free(&exec->ceiling);
	listener_release(&exec->listener);
	free(exec->cgroup);
	fd_replace(&exec->proc, -1);
	fd_replace(&exec->init, -1);
	fd_replace(&exec->sync, -1);
	free(begun);
}

struct sandbox_exec *sandbox_exec_begin(const struct sandbox_exec_params *params, pid_t *pid,
					struct err *err)
{
	struct sandbox_exec *begun = xcalloc(1, sizeof(*begun));
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err unheard;

	begun->child = -1;
	begun->params = *params;
	begun->exec = (struct exec){ .params = &begun->params, .proc = -1, .init = -1, .sync = -1 };
	for (int i = 0; i < 3; i++)
		if (params->stdio[i] < 0)
			begun->params.stdio[i] = null;
	if (begin(&begun->exec, &begun->child, err ? err : &unheard) == 0) {
		/* It may be long until the end, and there may be many. */
		fd_replace(&begun->exec.proc, -1);
		fd_replace(&begun->exec.init, -1);
		*pid = begun->child;
		return begun;
	}
	give_up(begun->child, true);
	release(begun);
	return NULL;
}

int sandbox_exec_fd(const struct sandbox_exec *begun)
{
	return begun->exec.sync;
}

int sandbox_exec_end(struct sandbox_exec *begun, bool reaped, struct err *err)
{
	struct err unheard;
	int r;

	err = err ? err : &unheard;
	r = hear_from(&begun->exec, begun->child, err);
	/* Frozen by v1, it ends only when it is thawed. */
	if (r < 0 && !reaped)
		give_up(begun->child, err->code != ERR_INTERRUPTED);
	release(begun);
	return r;
}

void sandbox_exec_forget(struct sandbox_exec *begun, bool reaped)
{
	if (!reaped)
		give_up(begun->child, true);
	release(begun);
}

int sandbox_exec(const struct sandbox_exec_params *params, pid_t *pid, struct err *err)
{
	struct sandbox_exec *begun = sandbox_exec_begin(params, pid, err);

	if (begun && sandbox_exec_end(begun, false, err) == 0)
		return 0;
	*pid = -1;
	return -1;
}
