/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parent's side of making a container: checks what can be checked beforehand, clones init into
 * its namespaces and cgroup, writes the id maps and hears from init how it went.
 */
#include "sandbox/harden_private.h"
#include "sandbox/hooks.h"
#include "sandbox/process.h"
#include "sandbox/protocol.h"
#include "sandbox/rootless.h"
#include "sandbox/setup.h"

#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Namespaces that init enters by itself: a cgroup namespace begins where its maker is. */
#define LATER ((uint64_t)(CLONE_NEWCGROUP | CLONE_NEWTIME))

static int refuse_unsupported(const struct setup *setup, struct err *err)
{
	const struct oci_config *config = setup->config;
	const struct oci_linux *linux_ = setup->linux_;
	const struct oci_hooks *hooks = config->hooks;
	const char *what = NULL;

	if (linux_->mount_label && *linux_->mount_label)
		what = "linux.mountLabel";
	else if (!setup->params->describe && hooks &&
		 (hooks->n_prestart || hooks->n_create_runtime || hooks->n_create_container ||
		  hooks->n_start_container))
		what = "hooks";
	if (what)
		return err_set(err, 0, "config.json: %s is not supported", what);
	return 0;
}

static int check_config(const struct setup *setup, struct err *err)
{
	const struct oci_config *config = setup->config;

	if (!config->process)
		return err_set(err, 0, "config.json: process is missing");
	if (refuse_unsupported(setup, err) < 0)
		return -1;
	if (rootless() && !namespaces_have(&setup->namespaces, CLONE_NEWUSER)) {
		err_set(err, EPERM, "make a container as an ordinary user");
		return err_hint(err, "config.json needs a user namespace: see moat spec "
				     "--rootless");
	}
	if (!(setup->namespaces.create & CLONE_NEWNS))
		return err_set(err, 0,
			       "config.json: linux.namespaces needs a new mount namespace: "
			       "without one the container's mounts would be the host's");
	if ((config->hostname || config->domainname) &&
	    !namespaces_have(&setup->namespaces, CLONE_NEWUTS))
		return err_set(err, 0, "config.json: hostname and domainname need a uts namespace");
	if (setup->linux_->n_net_devices && !namespaces_have(&setup->namespaces, CLONE_NEWNET))
		return err_set(err, 0,
			       "config.json: linux.netDevices needs a network namespace of the "
			       "container's own");
	if (setup->linux_->n_time_offsets && !(setup->namespaces.create & CLONE_NEWTIME))
		return err_set(err, 0, "config.json: linux.timeOffsets needs a new time namespace");
	if (setup->process->terminal && setup->params->console_socket < 0)
		return err_set(err, 0,
			       "config.json asks for a terminal, but there is no console "
			       "socket to send it to");
	return affinity_check(setup->process, err) < 0 ? -1 : sysctl_check(setup, err);
}

static int prepare_wall(struct setup *setup, struct err *err)
{
	const struct hardening *hardening = setup->params->hardening;

	capabilities_limit(&setup->capabilities, hardening->capabilities);
	if (hardening->id_base)
		process_give_streams(setup->params->stdio, hardening->id_base);
	if (seccomp_filter_compile(hardening->ceiling, setup->params->seccomp_cache,
				   &setup->ceiling, err) < 0)
		return err_wrap(err, "compile the filter of level sandbox");
	return 0;
}

static int prepare(struct setup *setup, struct err *err)
{
	bool foreign;

	if (namespaces_open(setup->linux_, &setup->namespaces, err) < 0 ||
	    check_config(setup, err) < 0 || mounts_read(setup, err) < 0)
		return -1;
	setup->proc = process_open_proc(err);
	if (setup->proc < 0 || lsm_check(setup->process, setup->proc, err) < 0)
		return -1;
	if (setup->namespaces.create & CLONE_NEWUSER)
		setup->foreign = setup->namespaces.join;
	/* An ordinary user can clone no mount outside of the namespaces that it makes. */
	foreign = namespaces_have(&setup->namespaces, CLONE_NEWUSER) && !rootless();
	capabilities_read(setup->process->capabilities, &setup->capabilities);
	if (setup->linux_->seccomp &&
	    (seccomp_filter_compile(setup->linux_->seccomp, setup->params->seccomp_cache,
				    &setup->seccomp, err) < 0 ||
	     program_check_filter(&setup->seccomp, err) < 0))
		return -1;
	if (setup->params->hardening && prepare_wall(setup, err) < 0)
		return -1;
	if (setup->seccomp.notify && listener_prepare(&setup->listener, setup->linux_->seccomp,
						      setup->params->describe, err) < 0)
		return -1;
	if (foreign)
		setup->rootfs = rootfs_open(setup, err);
	if ((foreign && setup->rootfs < 0) || mounts_open_sources(setup, foreign, err) < 0)
		return -1;
	if (foreign && setup->params->hardening && setup_map_files(setup, err) < 0)
		return -1;
	return setup_hosts(setup, err);
}

static void release(struct setup *setup)
{
	mounts_free(setup);
	namespaces_close(&setup->namespaces);
	seccomp_filter_free(&setup->seccomp);
	seccomp_filter_free(&setup->ceiling);
	listener_release(&setup->listener);
	fd_replace(&setup->proc, -1);
	fd_replace(&setup->rootfs, -1);
	fd_replace(&setup->sync, -1);
}

/* @extra: further flags. Returns as fork(2) does, with err set on failure. */
static pid_t clone_init(struct setup *setup, uint64_t extra, struct err *err)
{
	struct clone_args args = {
		.flags = (setup->namespaces.create & ~LATER) | CLONE_CLEAR_SIGHAND | extra,
		.exit_signal = extra & CLONE_PARENT ? 0 : SIGCHLD,
	};
	_cleanup_fd_ int cgroup = -1;
	pid_t pid;

	if (setup->params->cgroup_path && !(extra & CLONE_PARENT))
		cgroup = cgroup_open(setup->params->cgroup_path);
	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup;
	}
	setup->cgroup_cloned = cgroup >= 0; /* which init reads */
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0) {
		err_set(err, errno, "make the container's namespaces");
		if (err->code == ENOSPC || err->code == EUSERS)
			err_hint(err, "see the limits in /proc/sys/user");
	}
	return pid;
}

/* What the broker tells: init's pid, or why there is none. */
struct answer {
	pid_t pid;
	struct err err;
};

/*
 * In a user namespace that is joined others have the rights that we have there, and would see the
 * host's files through us. An ordinary user can set nothing of who is guarded.
 */
static int guard(const struct setup *setup, struct err *err)
{
	if (namespaces_joined(&setup->namespaces, CLONE_NEWUSER) < 0)
		return 0;
	if (process_set_oom_score(setup->process, setup->proc, getpid(), err) < 0)
		return -1;
	return prctl(PR_SET_DUMPABLE, 0) < 0 ? err_set(err, errno, "guard the process") : 0;
}

/*
 * A pid or user namespace that is joined holds for children only: a broker joins it and clones
 * init as a child of ours. It takes the cgroup along, while it still has the right to.
 */
static _Noreturn void broker_main(struct setup *setup, int channel)
{
	struct answer answer = { .pid = -1 };

	if ((!setup->params->cgroup_path ||
	     cgroup_enter(setup->params->cgroup_path, 0, &answer.err) == 0) &&
	    guard(setup, &answer.err) == 0 &&
	    namespaces_join(&setup->namespaces, ~0ull, &answer.err) == 0 &&
	    setup_foreign(setup, &answer.err) == 0)
		answer.pid = clone_init(setup, CLONE_PARENT, &answer.err);
	if (answer.pid == 0) {
		close(channel);
		init_main(setup);
	}
	_exit(fd_write_full(channel, &answer, sizeof(answer)) < 0);
}

static pid_t spawn_by_broker(struct setup *setup, int init_end, struct err *err)
{
	struct answer answer;
	int channel[2];
	pid_t broker;
	ssize_t n;

	if (fd_socketpair(SOCK_STREAM, channel) < 0)
		return err_set(err, errno, "make a socket pair");
	broker = fork();
	if (broker == 0) {
		close(channel[0]);
		fd_replace(&setup->sync, init_end);
		broker_main(setup, channel[1]);
	}
	close(channel[1]);
	if (broker < 0) {
		close(channel[0]);
		return err_set(err, errno, "make a process");
	}
	n = fd_read_full(channel[0], &answer, sizeof(answer));
	close(channel[0]);
	proc_wait(broker);
	if (n != sizeof(answer))
		return err_set(err, 0, "join the namespaces: the process that did so was killed");
	if (answer.pid < 0)
		*err = answer.err;
	return answer.pid;
}

/* Makes init; setup->sync is the parent's end afterwards. */
static pid_t spawn(struct setup *setup, struct err *err)
{
	int pair[2];
	pid_t pid;

	if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	setup->sync = pair[0];
	if (namespaces_need_broker(&setup->namespaces)) {
		pid = spawn_by_broker(setup, pair[1], err);
	} else {
		pid = clone_init(setup, 0, err);
		if (pid == 0) {
			fd_replace(&setup->sync, pair[1]);
			init_main(setup);
		}
	}
	close(pair[1]);
	return pid;
}

static int move_net_devices(struct setup *setup, pid_t pid, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%d/ns/net", (int)pid);
	int joined = namespaces_joined(&setup->namespaces, CLONE_NEWNET);
	_cleanup_fd_ int own = -1;

	if (!setup->linux_->n_net_devices)
		return 0;
	if (joined < 0)
		own = openat(setup->proc, path, O_RDONLY | O_CLOEXEC);
	if (joined < 0 && own < 0)
		return err_set(err, errno, "open the container's network namespace");
	return net_devices_move(&setup->net_devices, setup->linux_, joined < 0 ? own : joined, err);
}

static int let_go(struct setup *setup, pid_t pid, struct err *err)
{
	bool maps = setup->namespaces.create & CLONE_NEWUSER;
	char text[32];
	int n;

	if (namespaces_joined(&setup->namespaces, CLONE_NEWUSER) < 0 &&
	    process_set_oom_score(setup->process, setup->proc, pid, err) < 0)
		return -1;
	if (maps) {
		if (namespaces_map_ids(setup->linux_, setup->proc, pid, err) < 0)
			return -1;
		rlimits_raise(setup->process, pid);
	}
	if (cgroupfs_delegate(setup, err) < 0)
		return -1;
	if (move_net_devices(setup, pid, err) < 0)
		return -1;
	if (setup->params->pid_fd > 0) {
		uint64_t ticks = 0;

		n = proc_start_time(pid, &ticks, NULL) < 0
			    ? -1
			    : snprintf(text, sizeof(text), "%d %llu", (int)pid,
				       (unsigned long long)ticks);
		if (n < 0 || fd_write_full(setup->params->pid_fd, text, (size_t)n) < 0)
			return err_set(err, errno, "record the pid of init");
	}
	if (setup_waits(setup))
		if (send(setup->sync, "g", 1, MSG_NOSIGNAL) != 1)
			return 0; /* init is gone: hear_from() knows better why */
	return 0;
}

/* Init waits, with its mounts made. */
static int run_hooks(struct setup *setup, pid_t pid, struct err *err)
{
	const struct oci_hooks *hooks = setup->config->hooks;
	const struct sandbox_params *params = setup->params;
	_cleanup_free_ char *state = params->describe(params->describe_context, pid, "creating");

	if (hooks_run(hooks->prestart, hooks->n_prestart, "prestart", state, err) < 0 ||
	    hooks_run(hooks->create_runtime, hooks->n_create_runtime, "createRuntime", state, err) <
		    0)
		return -1;
	if (send(setup->sync, "g", 1, MSG_NOSIGNAL) != 1)
		return 0; /* init is gone: hear_from() knows better why */
	return 0;
}

static int explain_end(pid_t pid, struct err *err)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 || info.si_code == CLD_EXITED)
		return err_set(err, 0, "make the container: init ended before it was ready");
	err_set(err, 0, "make the container: init was killed by signal %d", info.si_status);
	return info.si_status == SIGKILL
		       ? err_hint(err, "a memory limit that is too small can be the reason")
		       : -1;
}

static int forward_listener(struct setup *setup, pid_t pid, struct err *err)
{
	const struct sandbox_params *params = setup->params;
	_cleanup_free_ char *state = params->describe(params->describe_context, pid, "creating");

	return listener_forward(&setup->listener, pid, setup->linux_->seccomp, state, err);
}

static int hear_from(struct setup *setup, pid_t pid, struct err *err)
{
	struct report report;
	ssize_t n;

	for (;;) {
		n = recv(setup->sync, &report, sizeof(report), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == sizeof(report.kind) && report.kind == REPORT_READY)
			return setup->listener.slot ? forward_listener(setup, pid, err) : 0;
		if (n != sizeof(report.kind) || report.kind != REPORT_HOOKS)
			break;
		if (run_hooks(setup, pid, err) < 0)
			return -1;
	}
	if (n != sizeof(report))
		return explain_end(pid, err);
	report.err.text[sizeof(report.err.text) - 1] = '\0';
	*err = report.err;
	return -1;
}

int sandbox_create(const struct sandbox_params *params, pid_t *pid, struct err *err)
{
	static const struct oci_linux none;
	const struct oci_config *config = params->config;
	struct setup setup = {
		.params = params,
		.config = config,
		.process = config->process,
		.linux_ = config->linux_ ? config->linux_ : &none,
		.proc = -1,
		.null = -1,
		.rootfs = -1,
		.sync = -1,
		.empty = -1,
		.terminal = -1,
	};
	struct err unheard;
	pid_t child = -1;
	int r = prepare(&setup, err ? err : (err = &unheard));

	if (r == 0) {
		child = spawn(&setup, err);
		r = child < 0 || let_go(&setup, child, err) < 0 ? -1
								: hear_from(&setup, child, err);
	}
	net_devices_release(&setup.net_devices, r < 0);
	if (r < 0 && child > 0) {
		kill(child, SIGKILL);
		proc_wait(child);
	}
	release(&setup);
	*pid = r < 0 ? -1 : child;
	return r;
}
