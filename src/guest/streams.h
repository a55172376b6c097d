/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The standard streams of one process: pipes or a terminal, each joined to a connection. */
#pragma once

#include "guest/agent.h"
#include "guest/pump.h"
#include "rpc/agent.pb-c.h"

#include <sys/types.h>

struct streams {
	uint32_t ports[3];
	int sockets[3];	 /* connections to the host; -1: none, or a pump has it */
	int ours[3];	 /* our ends of the pipes; likewise */
	int workload[3]; /* what becomes 0, 1, 2 of the process; -1: /dev/null */
	int console[2];	 /* terminal: a socket pair, [1] for the namespace engine */
	bool terminal;
	int master; /* terminal: for its size; -1: none */
	struct pump pumps[3];
	void (*ended)(struct streams *streams); /* an output has ended */
};

/* streams_init() - none at all. */
void streams_init(struct streams *streams);

/*
 * streams_prepare() - make the pipes and begin to connect.
 * @request: may be NULL: /dev/null three times.
 * Returns 0, or -1 with err set; release with streams_close() in both cases.
 */
int streams_prepare(struct streams *streams, const struct agent *agent,
		    const Moat__Agent__Stdio *request, struct err *err);

/*
 * streams_attach() - the process is there: close its ends, start the pumps.
 * @ended: called when an output stream has ended. Returns 0, or -1 with err set.
 */
int streams_attach(struct streams *streams, struct agent *agent,
		   void (*ended)(struct streams *streams), struct err *err);

/* streams_is_drained() - all output that was written so far is sent; it may have ended or not. */
bool streams_is_drained(const struct streams *streams);

/* streams_has_ended() - nobody can write any output any more, and all is sent. */
bool streams_has_ended(const struct streams *streams);

/* streams_resize() - set the terminal's size. Returns 0, or -1 with err set. */
int streams_resize(const struct streams *streams, uint32_t rows, uint32_t columns, struct err *err);

void streams_close(struct streams *streams);
