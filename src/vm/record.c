/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The record of a machine's processes: a line each, the pid and when it started. */
#include "vm/record.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/proc.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RECORD_NAME  "machine"
#define KILL_WAIT_MS 10000

int record_add(struct record *record, pid_t pid, struct err *err)
{
	pid_t named = pid ? pid : getpid();

	for (int i = 0; i < RECORD_PROCESSES; i++) {
		if (record->process[i].pid)
			continue;
		record->process[i].pid = named;
		if (proc_start_time(named, &record->process[i].start_time, NULL) < 0)
			return err_set(err, errno, "read the start time of process %d", (int)named);
		return 0;
	}
	return err_set(err, ENOSPC, "record process %d", (int)named);
}

int record_write(const struct record *record, int state_fd, struct err *err)
{
	char text[RECORD_PROCESSES * 48];
	size_t used = 0;

	for (int i = 0; i < RECORD_PROCESSES; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%d %" PRIu64 "\n",
					 (int)record->process[i].pid,
					 record->process[i].start_time);
	return file_replace(state_fd, RECORD_NAME, text, used, 0600, err);
}

/* Kills one process, if it still is the one meant. Returns 0; -1 where it does not end. */
static int kill_process(pid_t pid, uint64_t start_time)
{
	_cleanup_fd_ int pidfd = proc_pidfd(pid);
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };

	/* The pidfd first: what proc_is_alive() then says is true of it. */
	if (pidfd < 0 || !proc_is_alive(pid, start_time))
		return 0;
	if (proc_pidfd_signal(pidfd, SIGKILL) < 0)
		return errno == ESRCH ? 0 : -1;
	if (poll(&poll_fd, 1, KILL_WAIT_MS) > 0)
		return 0;
	errno = ETIMEDOUT;
	return -1;
}

/* Reads the file. Returns 0, or -1 with err set; no file: an empty record. */
static int record_read(struct record *record, int state_fd, struct err *err)
{
	struct err reason;
	_cleanup_free_ char *text = file_read(state_fd, RECORD_NAME, 4096, NULL, &reason);
	char *position = NULL;
	size_t used = 0;

	*record = (struct record){ 0 };
	if (!text && reason.code == ENOENT)
		return 0;
	if (!text)
		return err_set(err, 0, "%s", reason.text);
	for (char *line = strtok_r(text, "\n", &position); line && used < RECORD_PROCESSES;
	     line = strtok_r(NULL, "\n", &position)) {
		uint64_t start_time;
		int pid;

		if (sscanf(line, "%d %" SCNu64, &pid, &start_time) != 2 || pid <= 0)
			continue;
		record->process[used].pid = pid;
		record->process[used++].start_time = start_time;
	}
	return 0;
}

int record_kill(int state_fd, struct err *err)
{
	struct record record;
	int r = record_read(&record, state_fd, err);

	for (int i = 0; i < RECORD_PROCESSES && record.process[i].pid; i++) {
		pid_t pid = record.process[i].pid;

		if (kill_process(pid, record.process[i].start_time) < 0)
			r = err_set(err, errno, "end process %d of the machine", (int)pid);
	}
	return r;
}

int record_processes(int state_fd, pid_t **pids, size_t *count, struct err *err)
{
	struct record record;

	*count = 0;
	*pids = NULL;
	if (record_read(&record, state_fd, err) < 0)
		return -1;
	*pids = xcalloc(RECORD_PROCESSES, sizeof(**pids));
	for (int i = 0; i < RECORD_PROCESSES && record.process[i].pid; i++)
		if (proc_is_alive(record.process[i].pid, record.process[i].start_time))
			(*pids)[(*count)++] = record.process[i].pid;
	return 0;
}

void record_remove(int state_fd)
{
	unlinkat(state_fd, RECORD_NAME, 0);
}
