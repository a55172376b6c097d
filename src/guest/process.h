/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that the monitor knows: the first one of a container, or a further one. Its end, and
 * who waits for it.
 */
#pragma once

#include "guest/streams.h"

struct sandbox_exec;

struct process {
	struct agent *agent;
	struct process *next; /* of the container's */
	char *exec_id;	      /* "": the first one */
	pid_t pid;	      /* -1: none yet */
	bool exited, oom;
	uint32_t status; /* 0-255, or 128 + signal */
	struct streams streams;
	struct sandbox_exec *begun; /* a further one on its way to its program; else NULL */
	struct source begins;	    /* tells when it has got there */
	struct ttrpc_call asked;    /* answered then */
	struct source grace;	    /* timer: how long others may hold the output */
	struct ttrpc_call *waiters;
	size_t n_waiters;
	bool reported; /* Wait is answered at once */
};

/* process_new() - one without a pid. */
struct process *process_new(struct agent *agent, const char *exec_id);

/* process_exited() - its status has come; those who wait are answered when its output is sent. */
void process_exited(struct process *process, int wait_status, bool oom);

/* process_output_ended() - what streams_attach() calls; streams are the process's. */
void process_output_ended(struct streams *streams);

/* process_wait() - answer the call with the status, now or later. */
void process_wait(struct process *process, struct ttrpc_call call);

/*
 * process_free() - kill and reap what still runs of it, close its streams, answer calls that still
 * wait with an error.
 */
void process_free(struct process *process);
