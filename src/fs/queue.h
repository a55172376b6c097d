/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A virtqueue of the file server, and the thread that serves it: a thread has a loop, and each
 * queue belongs to one. The main thread starts and stops the queues of all.
 */
#pragma once

#include "base/loop.h"
#include "fs/session.h"

#include <pthread.h>

struct fs_thread {
	struct session *session;
	struct loop loop;
	struct worker worker;
	struct source wake; /* an eventfd, not the main thread's: the loop is to end */
	void *stack;	    /* and its guard */
	pthread_t id;
};

struct fs_queue {
	struct fs_thread *thread;
	struct source kick; /* its descriptor is this queue's */
	/* By who serves, and by who starts and stops it. */
	pthread_mutex_t lock;
	struct virtqueue ring;
	int call_fd;
	struct chain parked; /* a request that waits */
	bool has_parked;
	bool stopping; /* atomic: who serves is to let go of the lock */
	bool warned;   /* of a driver that breaks its ring */
};

void fs_queue_init(struct fs_queue *queue, struct fs_thread *thread);

/*
 * fs_queue_start() - serve it from now on, and take what is in it already.
 * @kick, @call: eventfds, owned from now on, also on failure.
 *
 * Returns 0, or -1 with err set: the driver gave a ring that cannot be.
 */
int fs_queue_start(struct fs_queue *queue, const struct guest_memory *memory,
		   const struct virtqueue_state *state, uint64_t features, int kick, int call,
		   struct err *err);

/*
 * fs_queue_end() - who serves it is to stop after the request that he is at. fs_queue_stop() - wait
 * for that: when it returns guest memory is touched no more for this queue.
 */
void fs_queue_end(struct fs_queue *queue);
void fs_queue_stop(struct fs_queue *queue);

/*
 * fs_thread_start() - a thread that serves the queues that are given to it; it waits for them, and
 * has by then made every system call that a thread begins with. Returns 0, or -1 with err set.
 */
int fs_thread_start(struct fs_thread *thread, struct session *session, struct err *err);
/* fs_thread_stop() - of one that was started and whose queues have stopped. */
void fs_thread_stop(struct fs_thread *thread);
