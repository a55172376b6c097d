/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event loop over epoll(7), level-triggered. A source is a struct that its owner embeds or keeps;
 * the loop only borrows it.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct source;

/*
 * What to do when a descriptor is ready. events: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
 * Returns 0; -1 with err set ends loop_run().
 */
typedef int (*source_fn)(struct source *source, uint32_t events, struct err *err);

struct source {
	int fd; /* the owner's */
	source_fn ready;
	void *data;	 /* the owner's */
	uint32_t events; /* what is asked for now */
	bool added;
};

struct loop {
	int epoll_fd;
	bool quit;
};

/* loop_init() - returns 0, or -1 with err set. */
int loop_init(struct loop *loop, struct err *err);
void loop_close(struct loop *loop);

/*
 * loop_watch() - ask for events on a source, from now on or changed; 0 keeps only HUP and ERR.
 * A descriptor that epoll cannot watch (a regular file) gives err->code EPERM.
 */
int loop_watch(struct loop *loop, struct source *source, uint32_t events, struct err *err);

/* loop_forget() - no more events of this source, also none of the batch being handled. */
void loop_forget(struct loop *loop, struct source *source);

/* loop_run() - handle events until loop_quit(). Returns 0, or -1 with err set. */
int loop_run(struct loop *loop, struct err *err);
void loop_quit(struct loop *loop);
