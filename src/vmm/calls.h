/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work that vCPU threads hand to the loop's thread, waiting until it is done. Devices and the
 * machine's state belong to that thread alone, and so need no locks.
 */
#pragma once

#include "base/loop.h"

#include <pthread.h>

struct call;

struct calls {
	struct source source; /* an eventfd: a call waits */
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct call *first;
	bool closed;
};

/* calls_init() - returns 0, or -1 with err set. */
int calls_init(struct calls *calls, struct loop *loop, struct err *err);

/*
 * calls_run() - have function(data) run on the loop's thread, and wait for it.
 * Returns 0; -1 where the loop has ended: the function was not called and never will be.
 */
int calls_run(struct calls *calls, void (*function)(void *data), void *data);

/* calls_close() - the loop has ended: all who wait, and all who come, get -1. */
void calls_close(struct calls *calls);

/* calls_free() - when no other thread is left. */
void calls_free(struct calls *calls);
