/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes. */
#include "base/proc.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* linux/sched.h of the kernel, which no header of user space has */
#define PF_EXITING    0x4
#define PF_FORKNOEXEC 0x40

/* What is looked at in /proc/PID/stat. */
struct stat_line {
	char state;	/* field 3 */
	uint64_t flags; /* 9: PF_ of the kernel's linux/sched.h */
	uint64_t ticks; /* 22 */
	uint64_t ended; /* 52: as wait(2) will tell it, to who may trace it; else 0 */
};

static int read_number(const char *text, uint64_t *number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(text, " \n"), text);
	return str_to_u64(digits, UINT64_MAX, number);
}

static int read_stat(pid_t pid, struct stat_line *line)
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
	errno = EPROTO;
	p = strrchr(text, ')'); /* field 2, the only one with spaces, is the program's choice */
	if (!p || p[1] != ' ')
		return -1;
	p += 2;
	line->state = *p;
	line->ended = 0;
	for (int field = 3; field < 52; field++) {
		if ((field == 9 && read_number(p, &line->flags) < 0) ||
		    (field == 22 && read_number(p, &line->ticks) < 0))
			return -1;
		p = strchr(p, ' ');
		if (!p)
			return field > 22 ? 0 : -1;
		p++;
	}
	return read_number(p, &line->ended);
}

int proc_start_time(pid_t pid, uint64_t *ticks, bool *zombie)
{
	struct stat_line line;

	if (read_stat(pid, &line) < 0)
		return -1;
	*ticks = line.ticks;
	if (zombie)
		*zombie = line.state == 'Z' || line.state == 'X';
	return 0;
}

enum proc_life proc_look(pid_t pid, uint64_t ticks)
{
	struct stat_line line;

	if (pid <= 0 || read_stat(pid, &line) < 0 || line.ticks != ticks || line.state == 'Z' ||
	    line.state == 'X')
		return PROC_GONE;
	return line.flags & PF_EXITING ? PROC_ENDING : PROC_ALIVE;
}

bool proc_ended_early(pid_t pid, uint64_t ticks, int *signal)
{
	struct stat_line line;

	if (pid <= 0 || read_stat(pid, &line) < 0 || line.ticks != ticks ||
	    !(line.flags & PF_EXITING) || !(line.flags & PF_FORKNOEXEC))
		return false;
	*signal = WTERMSIG((int)line.ended);
	return true;
}

bool proc_is_alive(pid_t pid, uint64_t ticks)
{
	return proc_look(pid, ticks) != PROC_GONE;
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

bool proc_is_machines_root(void)
{
	struct err ignored = { 0 };
	_cleanup_free_ char *map =
		file_read(AT_FDCWD, "/proc/self/uid_map", 1u << 16, NULL, &ignored);
	unsigned long first, outside;

	return geteuid() == 0 &&
	       (!map || sscanf(map, "%lu %lu", &first, &outside) != 2 || first == outside);
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
