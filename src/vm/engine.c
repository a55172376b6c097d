/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine of level vm: a container is a monitor process, reached over its control socket. */
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "cgroup/owned.h"
#include "vm/commands.h"
#include "vm/control.h"
#include "vm/exec.h"
#include "vm/machine.h"
#include "vm/monitor.h"
#include "vm/record.h"
#include "vm/start.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Waits for the monitor's word on the creation. */
static int wait_created(int ready_fd, struct err *err)
{
	struct err report;
	ssize_t n = fd_read_full(ready_fd, &report, sizeof(report));

	if (n == (ssize_t)sizeof(report) && !report.text[0])
		return 0;
	if (n == (ssize_t)sizeof(report)) {
		*err = report;
		return -1;
	}
	return err_set(err, 0, "make the container: its monitor was killed");
}

/*
 * fork(2) into the container's cgroup: a move there waits until all processors have passed through
 * their schedulers. By the system call, as in spawn.c. Where it cannot be, for want of a cgroup v2,
 * of a newer kernel or of the right, the monitor moves by itself, or says why not.
 */
static pid_t fork_into_cgroup(const struct container *container)
{
	_cleanup_fd_ int cgroup = container->cgroup_path ? cgroup_open(container->cgroup_path) : -1;
	struct clone_args args = { .flags = CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD,
				   .cgroup = (uint64_t)cgroup };
	pid_t pid = cgroup < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	return pid < 0 ? fork() : pid;
}

static int fork_monitor(struct container *container, struct machine *machine, struct err *err)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	pid = fork_into_cgroup(container);
	if (pid == 0)
		_exit(monitor_main(machine, pair[1]));
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_set(err, errno, "fork the monitor");
	}
	if (wait_created(pair[0], err) == 0) {
		close(pair[0]);
		container->pid = pid;
		return 0;
	}
	close(pair[0]);
	proc_wait(pid);
	return -1;
}

static int destroy(struct container *container, struct err *err)
{
	if (record_kill(container->state_fd, err) < 0)
		return -1;
	if (cgroup_remove_owned(container, container->pid > 0, err) < 0)
		return -1;
	control_remove(container->state_fd);
	record_remove(container->state_fd);
	return 0;
}

static int make(struct container *container, struct machine *machine, struct err *err)
{
	const struct oci_linux *linux_ = container->config->linux_;
	struct host_resources host;
	int r;

	sizing_host(linux_ ? linux_->resources : NULL, container->settings, &machine->size, &host);
	if (cgroup_create_owned(container, &host.resources, err) < 0)
		return -1;
	r = fork_monitor(container, machine, err);
	cgroup_settle_owned();
	if (r == 0)
		return 0;
	if (err->code == ERR_GUEST_LOST && template_distrust(machine))
		err_hint(err, "the template that such machines start from is removed: try again");
	if (destroy(container, NULL) < 0)
		log_warning("clean up after the failed creation of %s", container->id);
	return -1;
}

static int vm_create(struct container *container, const struct create_options *options,
		     struct err *err)
{
	struct machine machine;
	int r;

	if (options->preserve_fds > 0)
		return err_set(err, 0,
			       "--preserve-fds: descriptors cannot be passed into a microVM; mount "
			       "what they are of, or use --isolation=sandbox");
	r = machine_open(&machine, container, options, err);
	if (r == 0)
		r = make(container, &machine, err);
	machine_close(&machine);
	return r;
}

static int vm_kill(struct container *container, int signal, bool all, struct err *err)
{
	struct control_request request = { .type = CONTROL_KILL,
					   .signal = (uint32_t)signal,
					   .all = all };

	if (control_call(container->state_fd, &request, err) == 0)
		return 0;
	/* Its monitor may outlive it a little. containerd looks for just these words. */
	if (err && err->code == ERR_NOT_RUNNING)
		err_set(err, ERR_NOT_RUNNING, "signal %s: container not running", container->id);
	return -1;
}

const struct engine_ops vm_engine = {
	.name = "vm",
	.create = vm_create,
	.start = vm_start,
	.kill = vm_kill,
	.exec = vm_exec,
	.pause = vm_pause,
	.resume = vm_resume,
	.update = vm_update,
	.stats = vm_stats,
	.oom_watch = vm_oom_watch,
	.processes = vm_processes,
	.describe = vm_describe,
	.destroy = destroy,
};
