/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue served: a kick takes requests from it, one after the other, and raises one interrupt for
 * many.
 */
#include "fs/queue.h"

#include "base/fd.h"
#include "base/log.h"

#include <sys/epoll.h>

#define BATCH 16u  /* requests served before those done are signalled, at the latest */
#define TURN  256u /* requests served before others of the same thread have their turn */

/* An eventfd: that of the interrupt, or our own kick. */
static void raise_event(int fd)
{
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

static void signal_driver(struct fs_queue *queue)
{
	if (virtqueue_should_signal(&queue->ring))
		raise_event(queue->call_fd);
}

static bool is_stopping(const struct fs_queue *queue)
{
	return __atomic_load_n(&queue->stopping, __ATOMIC_RELAXED);
}

/* The session kicks the queue when the request has something to wait for no more. */
static void park(struct fs_queue *queue)
{
	queue->has_parked = true;
	session_park(queue->thread->session, queue->kick.fd);
}

static void serve_parked(struct fs_queue *queue)
{
	struct fs_thread *thread = queue->thread;
	uint32_t written;

	if (!queue->has_parked || !session_has_changes(thread->session))
		return;
	written = session_serve_parked(thread->session, &thread->worker, &queue->parked);
	queue->has_parked = false;
	if (written == SESSION_PARKED) /* there was nothing to say of what was there */
		park(queue);
	else
		virtqueue_push(&queue->ring, queue->parked.head, written);
}

/* With the lock. */
static void serve(struct fs_queue *queue)
{
	struct fs_thread *thread = queue->thread;
	struct chain *chain = &thread->worker.chain;
	unsigned int done = 0;
	struct err err;
	int r = 0;

	serve_parked(queue);
	while (done < TURN && !is_stopping(queue) &&
	       (r = virtqueue_pop(&queue->ring, chain, &err)) > 0) {
		uint32_t written = session_serve(thread->session, &thread->worker, chain);

		if (written == SESSION_PARKED) {
			queue->parked = *chain;
			park(queue);
		} else {
			virtqueue_push(&queue->ring, chain->head, written);
		}
		if (++done % BATCH == 0)
			signal_driver(queue);
	}
	signal_driver(queue);
	if (r > 0) /* perhaps there are more, of which no kick will tell */
		raise_event(queue->kick.fd);
	if (r < 0) {
		/* The driver broke its own ring: no more is taken from it until a reset. */
		virtqueue_deactivate(&queue->ring);
		/* The guest could fill the log otherwise. */
		if (!queue->warned)
			log_warning("fsd: serve a queue: %s; it waits for a reset", err.text);
		queue->warned = true;
	}
}

static int on_kick(struct source *source, uint32_t events, struct err *err)
{
	struct fs_queue *queue = source->data;

	/* Who stops it waits for the lock, and must not wait for turn after turn. */
	if (is_stopping(queue))
		return 0;
	pthread_mutex_lock(&queue->lock);
	serve(queue);
	pthread_mutex_unlock(&queue->lock);
	return 0;
}

void fs_queue_init(struct fs_queue *queue, struct fs_thread *thread)
{
	*queue = (struct fs_queue){ .thread = thread,
				    .call_fd = -1,
				    .kick = { .fd = -1, .ready = on_kick, .data = queue } };
	pthread_mutex_init(&queue->lock, NULL);
}

int fs_queue_start(struct fs_queue *queue, const struct guest_memory *memory,
		   const struct virtqueue_state *state, uint64_t features, int kick, int call,
		   struct err *err)
{
	int r;

	pthread_mutex_lock(&queue->lock);
	__atomic_store_n(&queue->stopping, false, __ATOMIC_RELAXED);
	queue->kick.fd = kick;
	queue->call_fd = call;
	queue->ring.state = *state;
	r = virtqueue_activate(&queue->ring, memory, features, err);
	pthread_mutex_unlock(&queue->lock);
	if (r < 0)
		return -1;
	/* By edge: each kick is an event of its own and the counter needs no reading. Requests may
	 * have come with no kick that was heard. */
	raise_event(kick);
	return loop_watch(&queue->thread->loop, &queue->kick, EPOLLIN | EPOLLET, err);
}

void fs_queue_end(struct fs_queue *queue)
{
	__atomic_store_n(&queue->stopping, true, __ATOMIC_RELAXED);
}

void fs_queue_stop(struct fs_queue *queue)
{
	fs_queue_end(queue);
	loop_forget(&queue->thread->loop, &queue->kick);
	pthread_mutex_lock(&queue->lock);
	virtqueue_deactivate(&queue->ring);
	if (queue->has_parked)
		session_unpark(queue->thread->session);
	queue->has_parked = false;
	fd_replace(&queue->kick.fd, -1);
	fd_replace(&queue->call_fd, -1);
	pthread_mutex_unlock(&queue->lock);
}
