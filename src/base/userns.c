/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces that nobody lives in. */
#include "base/userns.h"

#include "base/fd.h"
#include "base/proc.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process has to live in the namespace while its maps are written: until we close our end. */
static _Noreturn void hold(int ours, int its)
{
	char byte;

	close(ours);
	_exit(fd_read_full(its, &byte, 1) < 0);
}

int userns_make(int proc, int (*map)(const void *data, int proc, pid_t pid, struct err *err),
		const void *data, struct err *err)
{
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND,
				   .exit_signal = SIGCHLD };
	_cleanup_fd_ int ours = -1, its = -1;
	int namespace = -1, pair[2];
	char path[32];
	pid_t holder;

	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	ours = pair[0];
	its = pair[1];
	holder = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (holder == 0)
		hold(ours, its);
	if (holder < 0)
		return err_set(err, errno, "make a user namespace");
	snprintf(path, sizeof(path), "%d/ns/user", (int)holder);
	if (map(data, proc, holder, err) == 0) {
		namespace = openat(proc, path, O_RDONLY | O_CLOEXEC);
		if (namespace < 0)
			err_set(err, errno, "open the user namespace");
	}
	fd_replace(&ours, -1);
	proc_wait(holder);
	return namespace;
}
