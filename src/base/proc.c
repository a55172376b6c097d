/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes. */
#include "base/proc.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int proc_start_time(pid_t pid, uint64_t *ticks, bool *zombie)
{
	char path[64], text[1024], *p;
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = fd_read_full(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -1;
	text[n] = '\0';
	p = strrchr(text, ')'); /* field 2, the only one with spaces, is the program's choice */
	if (!p || p[1] != ' ') {
		errno = EPROTO;
		return -1;
	}
	p += 2;
	if (zombie)
		*zombie = *p == 'Z' || *p == 'X';
	for (int field = 3; field < 22; field++) {
		p = strchr(p, ' ');
		if (!p) {
			errno = EPROTO;
			return -1;
		}
		p++;
	}
	p[strcspn(p, " \n")] = '\0';
	return str_to_u64(p, UINT64_MAX, ticks);
}

bool proc_is_alive(pid_t pid, uint64_t ticks)
{
	uint64_t now;
	bool zombie;

	return pid > 0 && proc_start_time(pid, &now, &zombie) == 0 && now == ticks && !zombie;
}

int proc_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int proc_pidfd_signal(int pidfd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

int proc_status_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int proc_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return proc_status_code(status);
}

static int realtime_parse(const char *name)
{
	int base = str_starts_with(name, "RTMIN") ? SIGRTMIN : SIGRTMAX;
	uint64_t offset = 0;

	if (!str_starts_with(name, "RTMIN") && !str_starts_with(name, "RTMAX"))
		return -1;
	name += 5;
	if (*name && ((*name != '+' && *name != '-') || str_to_u64(name + 1, 64, &offset) < 0))
		return -1;
	base += *name == '-' ? -(int)offset : (int)offset;
	return base >= SIGRTMIN && base <= SIGRTMAX ? base : -1;
}

int signal_parse(const char *text, struct err *err)
{
	const char *name = text;
	uint64_t number;
	int r;

	if (str_to_u64(text, (uint64_t)SIGRTMAX, &number) == 0 && number > 0)
		return (int)number;
	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *abbreviation = sigabbrev_np(i);

		if (abbreviation && strcasecmp(abbreviation, name) == 0)
			return i;
	}
	r = realtime_parse(name);
	if (r < 0)
		return err_set(err, 0,
			       "unknown signal '%.64s': give a name such as TERM, or a number",
			       text);
	return r;
}
