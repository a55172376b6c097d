/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one request that may wait: a read of what the host changed, while it has changed nothing. */
#include "fs/told.h"

#include <unistd.h>

/* Any request, and anything that the host does, may be what the one that waits is waiting for. */
void session_wake(const struct session *session)
{
	const uint64_t one = 1;

	if (session->parked && session->wake_fd >= 0 && changes_are_there(session))
		(void)!write(session->wake_fd, &one, sizeof(one));
}

void session_park(struct session *session, int wake_fd)
{
	pthread_mutex_lock(&session->lock);
	session->wake_fd = wake_fd;
	session_wake(session); /* what it waits for may have come before it could be told */
	pthread_mutex_unlock(&session->lock);
}

void session_unpark(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	session->parked = false;
	session->wake_fd = -1;
	pthread_mutex_unlock(&session->lock);
}

void session_watch(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	changes_take(session);
	session_wake(session);
	pthread_mutex_unlock(&session->lock);
}

bool session_has_changes(struct session *session)
{
	bool there;

	pthread_mutex_lock(&session->lock);
	there = changes_are_there(session);
	pthread_mutex_unlock(&session->lock);
	return there;
}

uint32_t session_serve_parked(struct session *session, struct worker *worker, struct chain *chain)
{
	/* The next one that waits may be another queue's, and outlive this one's descriptor. */
	session_unpark(session);
	/* From its first byte on, which the guest may have changed meanwhile: to any request. */
	chain->read_done = 0;
	chain->write_done = 0;
	return session_serve(session, worker, chain);
}
