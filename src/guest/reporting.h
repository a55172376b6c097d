/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which free memory goes back to the host. Pieces of huge pages are worth having back from a guest
 * that idles. One that works soon wants them again, and has to take them from the host in pages of
 * 4 KiB, two faults each, where the whole huge page was there before: it gives back only whole
 * ones.
 */
#pragma once

#include "base/loop.h"

#include <stdbool.h>
#include <stdint.h>

#define REPORTING_ORDER_IDLE                                                                       \
	5		       /* 128 KiB and larger: most of what boot touched and let go is less \
				* than a huge page */
#define REPORTING_ORDER_BUSY 9 /* 2 MiB */

struct reporting {
	struct loop *loop;
	struct source timer; /* each time it looks */
	int64_t at, idle;    /* when it looked last: the time, that all processors idled, in ns */
	bool is_idle;
};

/*
 * reporting_start() - from now on, beginning with a guest that works, as a kernel does that is not
 * told otherwise. It ends by itself where the kernel does not report. Returns 0, or -1 with err
 * set.
 */
int reporting_start(struct reporting *reporting, struct loop *loop, struct err *err);

/*
 * reporting_is_idle() - whether a guest is: of this many ns of time and ns that its processors
 * idled, all together, less than a tenth of one processor's time was used.
 */
bool reporting_is_idle(int64_t elapsed, int64_t idled, long processors);
