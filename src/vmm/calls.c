/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls to the loop's thread: a list on the callers' stacks and one eventfd. */
#include "vmm/calls.h"

#include "base/fd.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

struct call {
	void (*function)(void *data);
	void *data;
	struct call *next;
	bool finished;
};

static int calls_ready(struct source *source, uint32_t events, struct err *err)
{
	struct calls *calls = source->data;
	struct call *call;
	eventfd_t count;

	eventfd_read(source->fd, &count);
	pthread_mutex_lock(&calls->lock);
	while ((call = calls->first)) {
		calls->first = call->next;
		pthread_mutex_unlock(&calls->lock);
		call->function(call->data);
		pthread_mutex_lock(&calls->lock);
		call->finished = true; /* from here on the caller may take the call away */
		pthread_cond_broadcast(&calls->done);
	}
	pthread_mutex_unlock(&calls->lock);
	return 0;
}

int calls_init(struct calls *calls, struct loop *loop, struct err *err)
{
	*calls = (struct calls){ .source = { .ready = calls_ready, .data = calls } };
	calls->source.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (calls->source.fd < 0)
		return err_set(err, errno, "create an eventfd");
	pthread_mutex_init(&calls->lock, NULL);
	pthread_cond_init(&calls->done, NULL);
	return loop_watch(loop, &calls->source, EPOLLIN, err);
}

int calls_run(struct calls *calls, void (*function)(void *data), void *data)
{
	struct call call = { .function = function, .data = data };
	struct call **last;

	pthread_mutex_lock(&calls->lock);
	if (!calls->closed) {
		for (last = &calls->first; *last; last = &(*last)->next)
			;
		*last = &call;
		eventfd_write(calls->source.fd, 1);
	}
	while (!call.finished && !calls->closed)
		pthread_cond_wait(&calls->done, &calls->lock);
	pthread_mutex_unlock(&calls->lock);
	return call.finished ? 0 : -1;
}

void calls_close(struct calls *calls)
{
	pthread_mutex_lock(&calls->lock);
	calls->closed = true;
	calls->first = NULL;
	pthread_cond_broadcast(&calls->done);
	pthread_mutex_unlock(&calls->lock);
}

void calls_free(struct calls *calls)
{
	fd_replace(&calls->source.fd, -1);
	pthread_mutex_destroy(&calls->lock);
	pthread_cond_destroy(&calls->done);
}
