/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether there is a CRIU that works with the running kernel. */
#include "criu/criu.h"
#include "criu/reason.h"

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PROGRAM	   "criu"
#define NO_PROGRAM 127

static _Noreturn void child_main(int spoken)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(spoken, STDOUT_FILENO) >= 0 &&
	    dup2(spoken, STDERR_FILENO) >= 0)
		execlp(PROGRAM, PROGRAM, "check", NULL);
	_exit(NO_PROGRAM);
}

int criu_check(struct err *err)
{
	_cleanup_fd_ int spoken = memfd_create(PROGRAM, MFD_CLOEXEC);
	_cleanup_free_ char *reason = NULL;
	int status = -1;
	pid_t pid = spoken < 0 ? -1 : fork();

	if (pid == 0)
		child_main(spoken);
	if (pid > 0)
		status = proc_wait(pid);
	if (status < 0)
		return err_set(err, errno, "run criu check");
	if (status == 0)
		return 0;
	if (status == NO_PROGRAM) {
		err_set(err, 0, "there is no program " PROGRAM);
		err->code = ENOENT;
		return -1;
	}
	reason = criu_reason(-1, "", spoken);
	return err_set(err, 0, "CRIU: %s", reason ? reason : "criu check failed");
}
