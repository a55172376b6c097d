/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file "machine" in the state directory: which processes a machine is made of, written before
 * anything else knows of them, so that what a crash leaves can be found and ended.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define RECORD_PROCESSES 4 /* monitor, vmm, fsd, diskd */

struct record {
	struct {
		pid_t pid; /* 0: none */
		uint64_t start_time;
	} process[RECORD_PROCESSES];
};

/* record_add() - put a process (0: the caller) into the next place. 0, or -1 with err set. */
int record_add(struct record *record, pid_t pid, struct err *err);

/* record_write() - replace the file. Returns 0, or -1 with err set. */
int record_write(const struct record *record, int state_fd, struct err *err);

/*
 * record_kill() - SIGKILL whatever of a recorded machine is alive, and wait until it has ended.
 * No file is no error. Returns 0; -1 with err set where a process did not end in time.
 */
int record_kill(int state_fd, struct err *err);

/*
 * record_processes() - the pids of those that are alive.
 * @pids: an array to be freed. No file: none. Returns 0, or -1 with err set.
 */
int record_processes(int state_fd, pid_t **pids, size_t *count, struct err *err);

void record_remove(int state_fd);
