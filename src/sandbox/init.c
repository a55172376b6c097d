/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The container's first process between clone3(2) and execve(2): a list of steps, in the order in
 * which they depend on each other. It holds descriptors of the host until it executes the user's
 * program, so from early on nobody may look into it.
 */
#include "sandbox/annotations.h"
#include "sandbox/harden_private.h"
#include "sandbox/hooks.h"
#include "sandbox/process.h"
#include "sandbox/protocol.h"
#include "sandbox/setup.h"

#include "base/path.h"
#include "base/str.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static int enter_cgroup(struct setup *setup, struct err *err)
{
	const char *path = setup->params->cgroup_path;

	if (!path)
		return 0;
	return setup->cgroup_cloned ? cgroup_enter_v1(path, err) : cgroup_enter(path, 0, err);
}

static int enter_namespaces(struct setup *setup, struct err *err)
{
	if (!namespaces_need_broker(&setup->namespaces) &&
	    namespaces_join(&setup->namespaces, ~0ull, err) < 0)
		return -1;
	if (setup->namespaces.create & CLONE_NEWTIME)
		return namespaces_enter_time(setup->linux_, setup->proc, err);
	return 0;
}

bool setup_waits(const struct setup *setup)
{
	return (setup->namespaces.create & CLONE_NEWUSER) || setup->params->pid_fd > 0 ||
	       setup->linux_->n_net_devices;
}

/* The parent has written the id maps, moved network devices to us, or recorded our pid. */
static int wait_release(struct setup *setup, struct err *err)
{
	char byte;

	if (!setup_waits(setup))
		return 0;
	if (fd_read_full(setup->sync, &byte, 1) != 1)
		_exit(EXIT_FAILURE); /* the parent is gone: nobody wants us */
	return 0;
}

/* Root of the user namespace: so that what we make belongs to it. */
static int become_root(struct setup *setup, struct err *err)
{
	if (!namespaces_have(&setup->namespaces, CLONE_NEWUSER))
		return 0;
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_set(err, errno, "become root of the user namespace (does it map id 0?)");
	return 0;
}

static int settle(struct setup *setup, struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "guard the process");
	if (setsid() < 0)
		return err_set(err, errno, "start a session");
	umask(0);
	if (setup->params->hardening && wall_core_make(err) < 0)
		return -1;
	if (setup->params->no_new_keyring)
		return 0;
	return process_join_keyring(setup->params->id, err);
}

static int open_null(struct setup *setup, struct err *err)
{
	struct stat st;

	setup->null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (setup->null < 0 || fstat(setup->null, &st) < 0)
		return err_set(err, errno, "open /dev/null");
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return err_set(err, 0, "/dev/null is not the null device");
	return 0;
}

static int make_terminal(struct setup *setup, struct err *err)
{
	if (!setup->process->terminal)
		return 0;
	setup->terminal = terminal_open(setup->process, setup->rootfs,
					setup->params->console_socket, true, err);
	return setup->terminal < 0 ? -1 : 0;
}

int setup_names(struct setup *setup, struct err *err)
{
	const char *host = setup->config->hostname, *domain = setup->config->domainname;

	if (host && sethostname(host, strlen(host)) < 0)
		return err_set(err, errno, "set the host name to %s", host);
	if (domain && setdomainname(domain, strlen(domain)) < 0)
		return err_set(err, errno, "set the domain name to %s", domain);
	return 0;
}

static int set_names(struct setup *setup, struct err *err)
{
	return setup->foreign & CLONE_NEWUTS ? 0 : setup_names(setup, err);
}

static int set_sysctls(struct setup *setup, struct err *err)
{
	return sysctl_apply(setup, ~setup->foreign, err);
}

static int set_up_network(struct setup *setup, struct err *err)
{
	return setup->namespaces.create & CLONE_NEWNET ? network_loopback_up(err) : 0;
}

int setup_unshare_cgroup(struct setup *setup, struct err *err)
{
	if (setup->cgroup_unshared || !(setup->namespaces.create & CLONE_NEWCGROUP))
		return 0;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_set(err, errno, "make a cgroup namespace");
	setup->cgroup_unshared = true;
	return 0;
}

/* The working directory is made where it is missing, as users of images expect. */
static int look_at_image(struct setup *setup, struct err *err)
{
	const struct oci_process *process = setup->process;
	_cleanup_fd_ int cwd = -1;

	setup->home = user_home(process, setup->rootfs);
	if (str_eq(process->cwd, "/"))
		return 0;
	cwd = path_open_in_root(setup->rootfs, process->cwd, O_PATH, 0, 0, err);
	if (cwd < 0 && err->code == ENOENT)
		cwd = path_make_in_root(setup->rootfs, process->cwd, true, 0755, err);
	if (cwd < 0 && (err->code == EROFS || err->code == EACCES))
		return 0; /* entering it gives the better message */
	return cwd < 0 ? err_wrap(err, "make the working directory %s", process->cwd) : 0;
}

static int tell_parent(const struct setup *setup, enum report_kind kind, const struct err *err)
{
	struct report report = { .kind = kind };

	if (err)
		report.err = *err;
	return send(setup->sync, &report, err ? sizeof(report) : sizeof(report.kind),
		    MSG_NOSIGNAL) < 0
		       ? -1
		       : 0;
}

/* With the mounts made and before the change of root, as the specification has it. */
static int run_hooks(struct setup *setup, struct err *err)
{
	const struct oci_hooks *hooks = setup->config->hooks;
	_cleanup_free_ char *state = NULL;
	char byte;

	if (!hooks || !(hooks->n_prestart || hooks->n_create_runtime || hooks->n_create_container))
		return 0;
	if (tell_parent(setup, REPORT_HOOKS, NULL) < 0 || fd_read_full(setup->sync, &byte, 1) != 1)
		_exit(EXIT_FAILURE); /* a hook of the parent's failed, or the parent is gone */
	if (!hooks->n_create_container)
		return 0;
	state = setup->params->describe(setup->params->describe_context, getpid(), "creating");
	return hooks_run(hooks->create_container, hooks->n_create_container, "createContainer",
			 state, err);
}

static int run_start_hooks(const struct setup *setup, struct err *err)
{
	const struct oci_hooks *hooks = setup->config->hooks;
	_cleanup_free_ char *state = NULL;

	if (!hooks || !hooks->n_start_container)
		return 0;
	state = setup->params->describe(setup->params->describe_context, getpid(), "created");
	return hooks_run(hooks->start_container, hooks->n_start_container, "startContainer", state,
			 err);
}

static int (*const steps[])(struct setup *setup, struct err *err) = {
	enter_cgroup,	enter_namespaces, wait_release,	 become_root,
	settle,		open_null,	  rootfs_attach, mounts_make,
	devices_make,	make_terminal,	  rootfs_hide,	 mounts_seal,
	set_up_network, set_names,	  set_sysctls,	 setup_unshare_cgroup,
	look_at_image,	run_hooks,	  rootfs_enter,
};

/* Returns the connection of the one who started us. */
static int wait_start(const struct setup *setup)
{
	for (;;) {
		int fd = setup->params->start_socket;
		char byte;

		if (setup->params->start_listens)
			fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			_exit(EXIT_FAILURE);
		if (fd_read_full(fd, &byte, 1) == 1)
			return fd;
		if (!setup->params->start_listens)
			_exit(EXIT_FAILURE); /* who was to start us is gone */
		close(fd);
	}
}

static _Noreturn void fail(const struct setup *setup, const struct err *err)
{
	tell_parent(setup, REPORT_FAILED, err);
	_exit(EXIT_FAILURE);
}

_Noreturn void init_main(struct setup *setup)
{
	struct err err = { 0 };
	struct process_plan plan = {
		.process = setup->process,
		.capabilities = &setup->capabilities,
		.seccomp = &setup->seccomp,
		.ceiling = &setup->ceiling,
		.hardening = setup->params->hardening,
		.listener = &setup->listener,
		.linux_ = setup->linux_,
		.proc = setup->proc,
		.preserve_fds = setup->params->preserve_fds,
		.keep_groups = crun_annotation_keeps_groups(setup->config),
	};
	int starter;

	if (setup->params->start_peer > 0)
		close(setup->params
			      ->start_peer); /* so that its end is seen when the caller is gone */
	process_reset_signals();
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i](setup, &err) < 0)
			fail(setup, &err);
	plan.home = setup->home;
	plan.terminal = setup->terminal;
	for (int i = 0; i < 3; i++)
		plan.stdio[i] = setup->params->stdio[i] < 0 ? setup->null : setup->params->stdio[i];
	if (process_become(&plan, &err) < 0)
		fail(setup, &err);
	if (tell_parent(setup, REPORT_READY, NULL) < 0)
		_exit(EXIT_FAILURE); /* the parent is gone before it could know of us */
	/* It may wait for long: nothing of the host is held meanwhile. */
	fd_close_except(3 + plan.preserve_fds, &setup->params->start_socket, 1);
	/* A listener goes to its agent through the parent, who is here only now. */
	if (setup->listener.slot && process_filter(&plan, &err) < 0)
		_exit(EXIT_FAILURE);
	starter = wait_start(setup);
	if (process_wall(&plan, &err) == 0 && run_start_hooks(setup, &err) == 0)
		process_execute(&plan, &err);
	if (send(starter, &err, sizeof(err), MSG_NOSIGNAL) < 0)
		_exit(EXIT_FAILURE);
	_exit(err.code == ERR_PROGRAM_NOT_FOUND ? 127 : err.code == ERR_PROGRAM_DENIED ? 126 : 1);
}
