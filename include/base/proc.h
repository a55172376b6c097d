/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes: identities that survive the reuse of a pid, waiting, exit statuses. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * proc_start_time() - field 22 of /proc/PID/stat: clock ticks since boot.
 * With the pid it names a process for good. Returns 0, or -1 with errno set (ENOENT, ESRCH: gone).
 * @zombie: set where the process has ended and waits to be reaped; may be NULL.
 */
int proc_start_time(pid_t pid, uint64_t *ticks, bool *zombie);

/*
 * proc_look() - what has become of the process pid that started at ticks. PROC_ENDING: it has
 * begun to end and runs no program any more, but may wait for others that have to end first.
 */
enum proc_life { PROC_GONE, PROC_ENDING, PROC_ALIVE };
enum proc_life proc_look(pid_t pid, uint64_t ticks);

/*
 * proc_ended_early() - whether the process pid that started at ticks has ended, or is about to,
 * without execve(2) since it was made. False where it was reaped: that nobody knows.
 * @signal: what ended it, 0 where it cannot be seen or was none.
 */
bool proc_ended_early(pid_t pid, uint64_t ticks, int *signal);

/* proc_is_alive() - true while pid is the process that started at ticks, and has not ended. */
bool proc_is_alive(pid_t pid, uint64_t ticks);

/* proc_pidfd() - pidfd_open(2). Returns a descriptor, or -1 with errno set. */
int proc_pidfd(pid_t pid);

/* proc_pidfd_signal() - pidfd_send_signal(2). Returns 0, or -1 with errno set. */
int proc_pidfd_signal(int pidfd, int signal);

/*
 * proc_wait() - wait for a child to end.
 * Returns its status as a shell would give it: 0-255, or 128 + the signal; -1 with errno set.
 */
int proc_wait(pid_t pid);

/* proc_status_code() - the same translation for a status that waitpid(2) gave. */
int proc_status_code(int wait_status);

/*
 * proc_is_machines_root() - whether the effective user is root of the machine and not, as in
 * rootless podman, of a user namespace that an ordinary user made.
 */
bool proc_is_machines_root(void);

/*
 * signal_parse() - "9", "KILL", "SIGKILL", "RTMIN+3" to a signal number.
 * Returns it, or -1 with err set.
 */
int signal_parse(const char *text, struct err *err);
