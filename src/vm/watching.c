/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who watches the container's memory keeps the connection, and is told how many processes the
 * guest's OOM killer has ended, each time there are more. The agent says so when it is asked, and
 * one that answers at once, again and again, is not asked at once.
 */
#include "base/fd.h"
#include "base/log.h"
#include "vm/control.h"
#include "vm/monitor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define PACE_MS 250

static void tell_watchers(struct monitor *monitor, uint64_t count)
{
	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++) {
		struct client *client = &monitor->clients[i];

		if (client->watching && client->source.fd >= 0)
			(void)send(client->source.fd, &count, sizeof(count),
				   MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void counted(void *data, uint64_t count, const struct err *err);

static void watch(struct monitor *monitor)
{
	struct watching *watching = &monitor->watching;
	struct err err;

	watching->resting = false;
	if (agent_watch_memory(monitor->agent, monitor->container->id,
			       watching->first ? UINT64_MAX : watching->oom_kills, counted, monitor,
			       &err) < 0)
		log_debug("%s", err.text);
}

static int rested(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;
	uint64_t times;

	if (read(source->fd, &times, sizeof(times)) == (ssize_t)sizeof(times) &&
	    monitor->watching.resting)
		watch(monitor);
	return 0;
}

/* Watches again, in a while. Returns 0, or -1 with err set. */
static int rest(struct monitor *monitor, struct err *err)
{
	const struct itimerspec when = { .it_value = { .tv_nsec = PACE_MS * 1000000L } };
	struct source *timer = &monitor->watching.timer;

	if (timer->fd <= 0)
		*timer = (struct source){
			.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
			.ready = rested,
			.data = monitor,
		};
	if (timer->fd < 0 || timerfd_settime(timer->fd, 0, &when, NULL) < 0)
		return err_set(err, errno, "make a timer");
	if (loop_watch(&monitor->loop, timer, EPOLLIN, err) < 0)
		return -1;
	monitor->watching.resting = true;
	return 0;
}

/* What there was before anybody watched is not told; the agent says that at once. */
static void counted(void *data, uint64_t count, const struct err *err)
{
	struct monitor *monitor = data;
	struct watching *watching = &monitor->watching;
	struct err reason;
	bool first = watching->first;

	if (err) {
		watching->asked = false;
		return;
	}
	if (!first && count > watching->oom_kills)
		tell_watchers(monitor, count);
	watching->first = false;
	watching->oom_kills = count;
	if (first) {
		watch(monitor);
	} else if (rest(monitor, &reason) < 0) {
		log_debug("%s", reason.text);
		watching->asked = false;
	}
}

void watching_begin(struct client *client)
{
	struct monitor *monitor = client->monitor;
	const struct err done = { 0 };
	int watchers = 0;

	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++)
		watchers += monitor->clients[i].watching && monitor->clients[i].source.fd >= 0;
	if ((monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING) ||
	    watchers >= MONITOR_WATCHERS_MAX) {
		client_refuse(client, watchers ? "too many watch the container's memory already"
					       : "the container is not running");
		return;
	}
	client->watching = true;
	(void)send(client->source.fd, &done, sizeof(done), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (monitor->watching.asked)
		return;
	monitor->watching.asked = true;
	monitor->watching.first = true;
	watch(monitor);
}

void watching_last(struct monitor *monitor)
{
	if (monitor->watching.resting)
		watch(monitor);
}

void watching_close(struct monitor *monitor)
{
	if (monitor->watching.timer.fd > 0)
		fd_replace(&monitor->watching.timer.fd, -1);
}
