/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event loop: one event is fetched at a time, so a source may be forgotten in any callback. */
#include "base/loop.h"

#include "base/fd.h"

#include <sys/epoll.h>

int loop_init(struct loop *loop, struct err *err)
{
	loop->quit = false;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return loop->epoll_fd < 0 ? err_set(err, errno, "create an epoll instance") : 0;
}

void loop_close(struct loop *loop)
{
	fd_replace(&loop->epoll_fd, -1);
}

int loop_watch(struct loop *loop, struct source *source, uint32_t events, struct err *err)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	if (source->added && source->events == events)
		return 0;
	if (epoll_ctl(loop->epoll_fd, source->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd,
		      &event) < 0)
		return err_set(err, errno, "watch descriptor %d", source->fd);
	source->added = true;
	source->events = events;
	return 0;
}

void loop_forget(struct loop *loop, struct source *source)
{
	if (!source->added)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->added = false;
}

int loop_run(struct loop *loop, struct err *err)
{
	while (!loop->quit) {
		struct epoll_event event;
		struct source *source;
		int n = epoll_wait(loop->epoll_fd, &event, 1, -1);

		if (n < 0 && errno != EINTR)
			return err_set(err, errno, "wait for events");
		if (n <= 0)
			continue;
		source = event.data.ptr;
		if (source->ready(source, event.events, err) < 0)
			return -1;
	}
	return 0;
}

void loop_quit(struct loop *loop)
{
	loop->quit = true;
}
