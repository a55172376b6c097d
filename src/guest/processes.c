/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A container's processes, out of procfs (proc(5)). Their names are the workload's: only carried.
 */
#include "guest/processes.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STAT_MAX    4096
#define COMMAND_MAX 4096u
#define ANSWER_MAX  (2u << 20) /* bytes of all commands together: an answer has a limit */
#define NS_PER_S    1000000000ull

static uint64_t ticks_to_ns(unsigned long long ticks)
{
	return ticks * (NS_PER_S / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* The wall clock when the machine started, which field 22 counts from. */
static uint64_t boot_ns(void)
{
	struct timespec now, up;

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return ((uint64_t)now.tv_sec - (uint64_t)up.tv_sec) * NS_PER_S + (uint64_t)now.tv_nsec -
	       (uint64_t)up.tv_nsec;
}

/*
 * "PID (NAME) STATE PPID ...": the name may hold anything, so what follows starts at the last ")".
 */
static int parse_stat(char *text, Moat__Agent__Process *out, char **name)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long user, system, start;
	int parent, terminal;
	char state;

	if (!open || !close || close < open ||
	    sscanf(close + 1,
		   " %c %d %*d %*d %d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &state, &parent, &terminal, &user, &system, &start) != 6)
		return -1;
	*close = '\0';
	*name = open + 1;
	out->parent = (uint32_t)parent;
	out->terminal = (uint32_t)terminal;
	out->cpu_ns = ticks_to_ns(user + system);
	out->start_ns = boot_ns() + ticks_to_ns(start);
	out->state = xasprintf("%c", state);
	return 0;
}

static char *read_command(int dir, const char *name, size_t most)
{
	_cleanup_fd_ int fd = openat(dir, "cmdline", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = xcalloc(most + 1, 1);
	ssize_t n = fd < 0 ? 0 : fd_read_full(fd, text, most);

	while (n > 0 && text[n - 1] == '\0')
		n--;
	if (n <= 0) /* a kernel's, or one that has ended */
		return xasprintf("[%s]", name);
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return steal(text);
}

static Moat__Agent__Process *read_process(pid_t pid, size_t most)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d", pid), *text = NULL;
	_cleanup_fd_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	Moat__Agent__Process *out;
	struct stat st;
	char *name;

	if (dir < 0 || fstat(dir, &st) < 0)
		return NULL;
	text = file_read(dir, "stat", STAT_MAX, NULL, NULL);
	if (!text)
		return NULL;
	out = xcalloc(1, sizeof(*out));
	moat__agent__process__init(out);
	if (parse_stat(text, out, &name) < 0) {
		free(out);
		return NULL;
	}
	out->pid = (uint32_t)pid;
	out->uid = st.st_uid;
	out->command = read_command(dir, name, most);
	return out;
}

int processes_list(const char *cgroup, Moat__Agent__ProcessesResponse *out, struct err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count, most;

	if (cgroup_processes(cgroup, &pids, &count, err) < 0)
		return -1;
	out->processes = xcalloc(count, sizeof(*out->processes));
	most = count * COMMAND_MAX > ANSWER_MAX ? ANSWER_MAX / count : COMMAND_MAX;
	for (size_t i = 0; i < count; i++) {
		Moat__Agent__Process *process = pids[i] ? read_process(pids[i], most) : NULL;

		if (process)
			out->processes[out->n_processes++] = process;
	}
	return 0;
}

void processes_free(Moat__Agent__ProcessesResponse *out)
{
	for (size_t i = 0; i < out->n_processes; i++) {
		free(out->processes[i]->state);
		free(out->processes[i]->command);
		free(out->processes[i]);
	}
	free(out->processes);
	out->processes = NULL;
	out->n_processes = 0;
}
