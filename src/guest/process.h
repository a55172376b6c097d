/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that the monitor knows: the first one of a container. Its end, and who waits for it. */
#pragma once

#include "guest/streams.h"

struct process {
	struct agent *agent;
	const struct container *container;
	pid_t pid;
	bool exited, oom;
	uint32_t status; /* 0-255, or 128 + signal */
	struct streams streams;
	struct source grace; /* timer: how long others may hold the output */
	struct ttrpc_call *waiters;
	size_t n_waiters;
	bool reported; /* Wait is answered at once */
};

/* process_exited() - its status has come; those who wait are answered when its output is sent. */
void process_exited(struct process *process, int wait_status, bool oom);

/* process_output_ended() - what streams_attach() calls; streams are the process's. */
void process_output_ended(struct streams *streams);

/* process_wait() - answer the call with the status, now or later. */
void process_wait(struct process *process, struct ttrpc_call call);

/* process_release() - close its streams; calls that still wait are answered with an error. */
void process_release(struct process *process);
