/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pump: waits for one side at a time. While it waits to read, the far side is watched only for
 * its end; edge-triggered, since a half that was shut down stays so and would be reported for ever.
 */
#include "guest/pump.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CHUNK  (64u << 10)
#define ROUNDS 16 /* before other descriptors have their turn */

enum step { STEP_MOVED, STEP_EMPTY, STEP_FULL, STEP_END };

bool pump_runs(const struct pump *pump)
{
	return pump->loop && pump->in.fd >= 0;
}

static bool is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) > 0;
}

bool pump_is_idle(const struct pump *pump)
{
	return !pump_runs(pump) || (pump->start == pump->end && !is_ready(pump->in.fd, POLLIN));
}

void pump_stop(struct pump *pump)
{
	if (!pump_runs(pump))
		return;
	loop_forget(pump->loop, &pump->in);
	loop_forget(pump->loop, &pump->out);
	/* Fails on what is no socket, where closing does it. */
	shutdown(pump->in.fd, SHUT_RD);
	shutdown(pump->out.fd, SHUT_WR);
	fd_replace(&pump->in.fd, -1);
	fd_replace(&pump->out.fd, -1);
	free(steal(pump->buffer));
	pump->start = pump->end = 0;
}

static void finish(struct pump *pump)
{
	pump_stop(pump);
	if (pump->ended)
		pump->ended(pump);
}

/* Send what waits in the buffer. STEP_MOVED: nothing waits any more. */
static enum step drain(struct pump *pump)
{
	while (pump->start < pump->end) {
		ssize_t n =
			write(pump->out.fd, pump->buffer + pump->start, pump->end - pump->start);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? STEP_FULL : STEP_END;
		pump->start += (size_t)n;
	}
	return STEP_MOVED;
}

static enum step copy(struct pump *pump)
{
	enum step step = drain(pump);
	ssize_t n;

	if (step != STEP_MOVED)
		return step;
	if (!pump->buffer)
		pump->buffer = xcalloc(CHUNK, 1);
	do
		n = read(pump->in.fd, pump->buffer, CHUNK);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return STEP_EMPTY;
	if (n <= 0) /* EIO: a terminal that no process has open any more */
		return STEP_END;
	pump->start = 0;
	pump->end = (size_t)n;
	return drain(pump);
}

static enum step move(struct pump *pump)
{
	ssize_t n;

	if (!pump->spliced)
		return copy(pump);
	n = splice(pump->in.fd, NULL, pump->out.fd, NULL, CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0 || (n < 0 && errno == EINTR))
		return STEP_MOVED;
	if (n < 0 && errno == EAGAIN)
		return is_ready(pump->out.fd, POLLOUT) ? STEP_EMPTY : STEP_FULL;
	if (n < 0 && errno == EINVAL) {
		pump->spliced = false;
		return copy(pump);
	}
	return STEP_END;
}

static int wait_for(struct pump *pump, enum step step, struct err *err)
{
	if (step == STEP_FULL) {
		/*
		 * Forgotten, not just unwatched: the end of a pipe would be reported all the time.
		 */
		loop_forget(pump->loop, &pump->in);
		return loop_watch(pump->loop, &pump->out, EPOLLOUT | EPOLLRDHUP | EPOLLET, err);
	}
	if (loop_watch(pump->loop, &pump->out, EPOLLRDHUP | EPOLLET, err) < 0)
		return -1;
	return loop_watch(pump->loop, &pump->in, EPOLLIN, err);
}

static int run(struct pump *pump)
{
	enum step step = STEP_MOVED;

	for (int i = 0; i < ROUNDS && step == STEP_MOVED; i++)
		step = move(pump);
	if (step == STEP_END || wait_for(pump, step, NULL) < 0)
		finish(pump);
	return 0;
}

static int in_ready(struct source *source, uint32_t events, struct err *err)
{
	return run(source->data);
}

/*
 * A peer that has shut down its sending half alone still reads; one that reads no more refuses
 * even to be sent nothing.
 */
static bool reader_is_gone(const struct pump *pump, uint32_t events)
{
	if (events & (EPOLLERR | EPOLLHUP))
		return true;
	return events & EPOLLRDHUP && send(pump->out.fd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
	       errno != EAGAIN;
}

static int out_ready(struct source *source, uint32_t events, struct err *err)
{
	struct pump *pump = source->data;

	if (reader_is_gone(pump, events)) {
		finish(pump);
		return 0;
	}
	return events & EPOLLOUT ? run(pump) : 0;
}

static int set_nonblocking(int fd, struct err *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_set(err, errno, "make a stream non-blocking");
	return 0;
}

int pump_start(struct pump *pump, struct loop *loop, int in, int out,
	       void (*ended)(struct pump *pump), void *data, struct err *err)
{
	*pump = (struct pump){
		.loop = loop,
		.in = { .fd = in, .ready = in_ready, .data = pump },
		.out = { .fd = out, .ready = out_ready, .data = pump },
		.spliced = true,
		.ended = ended,
		.data = data,
	};
	if (set_nonblocking(in, err) < 0 || set_nonblocking(out, err) < 0 ||
	    wait_for(pump, STEP_EMPTY, err) < 0) {
		pump_stop(pump);
		return -1;
	}
	return 0;
}
