/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes of a machine. */
#include "vm/spawn.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define END_TIMEOUT_MS 5000

/*
 * fork(2) into a new pid namespace and others. By the system call: with unshare(2) the caller would
 * have to come back to its own, which an ordinary user may not. It has one thread, so that what the
 * C library does at a fork is not missed.
 */
static pid_t fork_apart(unsigned long namespaces, struct err *err)
{
	pid_t pid =
		(pid_t)syscall(SYS_clone, CLONE_NEWPID | namespaces | SIGCHLD, NULL, NULL, NULL, 0);

	return pid < 0 ? err_set(err, errno, "fork into namespaces of its own") : pid;
}

/* In the child: nothing of the monitor's but what it was given. */
static int strip(enum role role, const int *keep, size_t count, int ready_fd, struct err *err)
{
	int fds[64] = { ready_fd, log_fd() };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char name[16];
	sigset_t none;

	snprintf(name, sizeof(name), "moat-%s", role_names[role]);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* once more in the jail */
	if (count > sizeof(fds) / sizeof(fds[0]) - 2)
		return err_set(err, EINVAL, "keep %zu descriptors", count);
	if (count)
		memcpy(fds + 2, keep, count * sizeof(*keep));
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
	    (log_fd() >= 0 && dup2(null, 2) < 0))
		return err_set(err, errno, "open /dev/null");
	if (fd_close_except(3, fds, count + 2) < 0)
		return err_set(err, errno, "close the monitor's descriptors");
	sigemptyset(&none);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return 0;
}

int spawn_pair(int *one, int *other, struct err *err)
{
	int pair[2];

	if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	*one = pair[0];
	*other = pair[1];
	return 0;
}

int spawn(struct child *child, enum role role, unsigned long namespaces, const int *keep,
	  size_t count, int (*body)(void *data, int ready_fd), void *data, struct err *err)
{
	struct err reason;
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	pid = fork_apart(namespaces, err);
	if (pid == 0) {
		if (strip(role, keep, count, pair[1], &reason) == 0)
			_exit(body(data, pair[1]));
		spawn_ready(pair[1], &reason);
		_exit(1);
	}
	close(pair[1]);
	child->ready_fd = pair[0];
	if (pid < 0)
		return err_wrap(err, "start the %s", role_names[role]);
	child->pid = pid;
	child->pidfd = proc_pidfd(pid);
	if (child->pidfd < 0)
		return err_set(err, errno, "open a pidfd of the %s", role_names[role]);
	return 0;
}

void spawn_ready(int ready_fd, const struct err *err)
{
	struct err report = { 0 };

	if (err)
		report = *err;
	(void)fd_write_full(ready_fd, &report, sizeof(report));
	close(ready_fd);
}

/* Says how one ended that said nothing. It is left to be reaped by spawn_end(). */
static int tell_end(const struct child *child, enum role role, struct err *err)
{
	struct pollfd end = { .fd = child->pidfd, .events = POLLIN };
	siginfo_t info = { 0 };

	err_set(err, 0, "start the %s: it ended while it was set up", role_names[role]);
	/* What it wrote to is closed a moment before it is gone. */
	if (poll(&end, 1, END_TIMEOUT_MS) <= 0 ||
	    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid != child->pid)
		return -1;
	if (info.si_code == CLD_EXITED)
		return err_hint(err, "its status was %d", info.si_status);
	err_hint(err, "signal %d (%s) ended it", info.si_status, strsignal(info.si_status));
	if (info.si_status == SIGKILL)
		err_hint(err, "the host may lack memory: see its log");
	return -1;
}

int spawn_wait_ready(struct child *child, enum role role, struct err *err)
{
	struct err report;
	ssize_t n = fd_read_full(child->ready_fd, &report, sizeof(report));

	fd_replace(&child->ready_fd, -1);
	if (n == (ssize_t)sizeof(report) && !report.text[0])
		return 0;
	if (n == (ssize_t)sizeof(report)) {
		*err = report;
		err->text[sizeof(err->text) - 1] = '\0';
		return -1;
	}
	return tell_end(child, role, err);
}

void spawn_kill(const struct child *child)
{
	/* The monitor's filter knows no kill(2), which would reach any process. */
	if (child->pid && child->pidfd >= 0)
		proc_pidfd_signal(child->pidfd, SIGKILL);
	else if (child->pid)
		kill(child->pid, SIGKILL);
}

int spawn_end(struct child *child)
{
	int status = -1;

	fd_replace(&child->ready_fd, -1);
	spawn_kill(child);
	if (child->pid) {
		while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
			;
		child->pid = 0;
	}
	fd_replace(&child->pidfd, -1);
	return status;
}
