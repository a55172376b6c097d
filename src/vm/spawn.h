/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Starting the processes of a machine: forks of the monitor that keep what they are given. */
#pragma once

#include "vm/jail.h"

struct child {
	pid_t pid; /* 0: none */
	int pidfd;
	int ready_fd; /* until spawn_wait_ready(): where the child says how its setup went */
};

/* spawn_pair() - a socket pair between two roles. Returns 0, or -1 with err set. */
int spawn_pair(int *one, int *other, struct err *err);

/*
 * spawn() - fork a process for a role, in a pid namespace of its own.
 * @namespaces: CLONE_NEW* of further ones; 0, or JAIL_NAMESPACES for a jail that is JAIL_BORN_IN.
 * @keep: descriptors (3 and up) that it keeps beside the log; 0 and 1 become /dev/null, and so does
 *        2 unless log lines go there.
 * @body: sets the role up, calls spawn_ready() and serves. It returns the exit status.
 *
 * Returns 0, or -1 with err set.
 */
int spawn(struct child *child, enum role role, unsigned long namespaces, const int *keep,
	  size_t count, int (*body)(void *data, int ready_fd), void *data, struct err *err);

/* spawn_ready() - in the child: it serves from now on (err NULL), or why it does not. */
void spawn_ready(int ready_fd, const struct err *err);

/* spawn_wait_ready() - wait for that. Returns 0, or -1 with err set to what the child met. */
int spawn_wait_ready(struct child *child, enum role role, struct err *err);

/* spawn_kill() - begin to end a child, if it is still there: several then end at the same time. */
void spawn_kill(const struct child *child);

/*
 * spawn_end() - kill a child, if it is still there, and reap it.
 * Returns its status as waitpid(2) gives it; -1 where there was no child.
 */
int spawn_end(struct child *child);
