/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks on other processes, and attempts to become more than one is. */
#include "jail_attacks.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

char jail_memory[32];

ATTACK(trace)
{
	return CALL(SYS_ptrace, PTRACE_SEIZE, s->victim, 0, 0);
}

ATTACK(make_process)
{
	long pid = syscall(SYS_fork);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

ATTACK(make_process_clone)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

ATTACK(make_process_clone3)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

static void *thread(void *data)
{
	return data;
}

ATTACK(make_thread)
{
	pthread_t id;

	return pthread_create(&id, NULL, thread, NULL) != 0 || pthread_join(id, NULL) != 0;
}

ATTACK(execute)
{
	char *const args[] = { "true", NULL };

	execve("/bin/true", args, NULL);
	return 1;
}

ATTACK(execute_descriptor)
{
	char *const args[] = { "true", NULL };
	long fd = syscall(SYS_openat, AT_FDCWD, "/bin/true", O_RDONLY, 0);

	syscall(SYS_execveat, fd, "", args, NULL, AT_EMPTY_PATH);
	return 1;
}

ATTACK(send_signal)
{
	return CALL(SYS_kill, s->victim, SIGCONT);
}

ATTACK(send_signal_thread)
{
	return CALL(SYS_tgkill, s->victim, s->victim, SIGUSR1);
}

ATTACK(send_signal_all)
{
	return CALL(SYS_kill, -1, 0); /* hurts nobody */
}

ATTACK(send_signal_queued)
{
	siginfo_t info = { .si_signo = SIGCONT, .si_code = SI_QUEUE };

	return CALL(SYS_rt_sigqueueinfo, s->victim, SIGCONT, &info);
}

ATTACK(open_pidfd)
{
	return CALL(SYS_pidfd_open, s->victim, 0);
}

ATTACK(take_descriptor)
{
	return CALL(SYS_pidfd_getfd, syscall(SYS_pidfd_open, s->victim, 0), s->victim_fd, 0);
}

ATTACK(limit_another)
{
	struct rlimit limit;

	return CALL(SYS_prlimit64, s->victim, RLIMIT_NOFILE, NULL, &limit);
}

ATTACK(slow_another)
{
	return CALL(SYS_setpriority, PRIO_PROCESS, s->victim, 1);
}

static int got_it(const char *buffer)
{
	return strcmp(buffer, "secret of another") != 0;
}

ATTACK(read_memory)
{
	char buffer[sizeof(jail_memory)] = "";
	struct iovec to = { buffer, sizeof(buffer) }, from = { jail_memory, sizeof(jail_memory) };

	return CALL(SYS_process_vm_readv, s->victim, &to, 1, &from, 1, 0) || got_it(buffer);
}

ATTACK(read_memory_file)
{
	char buffer[sizeof(jail_memory)] = "", path[64];
	long fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", s->victim);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	return fd < 0 || CALL(SYS_pread64, fd, buffer, sizeof(buffer), (uintptr_t)jail_memory) ||
	       got_it(buffer);
}

ATTACK(write_memory)
{
	char buffer[] = "secret of another";
	struct iovec from = { buffer, sizeof(buffer) }, to = { jail_memory, sizeof(buffer) };

	return CALL(SYS_process_vm_writev, s->victim, &from, 1, &to, 1, 0);
}

ATTACK(unshare_user)
{
	return CALL(SYS_unshare, CLONE_NEWUSER);
}

ATTACK(join_namespace)
{
	return CALL(SYS_setns, syscall(SYS_pidfd_open, s->victim, 0), CLONE_NEWNET);
}

ATTACK(become_another)
{
	return CALL(SYS_setresuid, 12345, 12345, 12345);
}

ATTACK(join_group)
{
	gid_t group = 12345;

	return CALL(SYS_setgroups, 1, &group);
}

ATTACK(raise_capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { 1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0 } };

	return CALL(SYS_capset, &header, caps);
}

ATTACK(be_dumpable)
{
	return CALL(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

const struct attack attacks_on_processes[] = {
	WALLED(trace),
	FILTERED(make_process),
	FILTERED(make_process_clone),
	FILTERED(make_process_clone3),
	FILTERED(make_thread),
	WALLED(execute),
	WALLED(execute_descriptor),
	WALLED(send_signal),
	WALLED(send_signal_thread),
	WALLED(send_signal_all),
	WALLED(send_signal_queued),
	WALLED(open_pidfd),
	WALLED(take_descriptor),
	WALLED(limit_another),
	WALLED(slow_another),
	WALLED(read_memory),
	WALLED(read_memory_file),
	WALLED(write_memory),
	FILTERED(unshare_user),
	WALLED(join_namespace),
	FILTERED(become_another), /* fsd has the capability, for setfsuid(2) */
	FILTERED(join_group),
	WALLED(raise_capabilities),
	FILTERED(be_dumpable),
	{ 0 },
};
