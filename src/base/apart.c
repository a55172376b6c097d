/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Children for what there is no way back from: what they say comes through a pipe. */
#include "base/apart.h"

#include "base/fd.h"
#include "base/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static pid_t waiting; /* in the child: who waits for it */

static _Noreturn void child(int (*run)(const void *data, struct err *err), const void *data, int to)
{
	struct err report = { 0 };

	if (run(data, &report) == 0)
		report = (struct err){ 0 };
	_exit(fd_write_full(to, &report, sizeof(report)) < 0);
}

int apart_run(const char *what, int (*run)(const void *data, struct err *err), const void *data,
	      struct err *err)
{
	struct err report = { 0 };
	pid_t pid, own = getpid();
	int pair[2];
	ssize_t n;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0) {
		waiting = own;
		child(run, data, pair[1]);
	}
	if (pid < 0)
		err_set(err, errno, "%s: make a process", what);
	close(pair[1]);
	n = pid < 0 ? -1 : fd_read_full(pair[0], &report, sizeof(report));
	close(pair[0]);
	if (pid < 0)
		return -1;
	proc_wait(pid);
	if (n != (ssize_t)sizeof(report))
		return err_set(err, 0, "%s: the process that was to do it ended", what);
	if (!report.text[0])
		return 0;
	if (err)
		*err = report;
	return -1;
}

int apart_bind(struct err *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_set(err, errno, "tie a process to its parent");
	if (getppid() != waiting) /* it had died before */
		_exit(1);
	return 0;
}
