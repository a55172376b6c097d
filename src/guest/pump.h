/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pump moves bytes from one descriptor to another until either ends, and never holds more than
 * one buffer: what the far side does not take is left where it comes from, so that its writer
 * waits.
 */
#pragma once

#include "base/loop.h"

#include <stddef.h>

struct pump {
	struct loop *loop;
	struct source in, out; /* its own; -1 once it has ended */
	bool spliced;	       /* one side is a pipe: the kernel moves the bytes */
	char *buffer;	       /* else */
	size_t start, end;     /* what waits in it */
	void (*ended)(struct pump *pump);
	void *data; /* the owner's */
};

/*
 * pump_start() - move bytes from in to out from now on.
 * @in, @out: owned by the pump from now on, also on failure; made non-blocking. The end of in
 *            closes out (a socket is shut down first: it may have been duplicated); an out whose
 *            reader has gone closes in, so that the writer gets EPIPE.
 * @ended: called once when the pump has ended, its descriptors closed. May be NULL.
 *
 * Returns 0, or -1 with err set.
 */
int pump_start(struct pump *pump, struct loop *loop, int in, int out,
	       void (*ended)(struct pump *pump), void *data, struct err *err);

/*
 * pump_stop() - close both sides now, without a word; a pump that never ran or has ended is fine.
 */
void pump_stop(struct pump *pump);

bool pump_runs(const struct pump *pump);

/* pump_is_idle() - nothing is there to be moved: it has ended, or waits for the writer. */
bool pump_is_idle(const struct pump *pump);
