/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process on the host that stands for a further one in the guest: engines wait for it, and send
 * signals to it. It ends with the other's status.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct standin {
	int monitor;		 /* connection of a CONTROL_EXEC */
	int terminal;		 /* the side of the process; -1: none */
	uint16_t rows, columns;	 /* as the guest was told */
	const char *cgroup_path; /* where it belongs; NULL: stay where the caller is */
	pid_t pid;		 /* once there; 0: none */
	int channel;		 /* to the process, until it is let go */
};

/*
 * standin_fork() - start it. It is ready when standin_release() returns, and does nothing before:
 * the reply to the request is the caller's to read. Without a release it ends with its caller.
 * Returns 0, or -1 with err set.
 */
int standin_fork(struct standin *standin, struct err *err);

/* standin_release() - the process in the guest runs. Returns 0, or -1 with err set. */
int standin_release(struct standin *standin, struct err *err);

/* standin_end() - kill and reap it. */
void standin_end(struct standin *standin);
