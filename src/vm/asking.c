/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions about the container, and its limits. An answer is a text in the file that came with the
 * request: it may be long. Who watches the memory keeps the connection, and gets a byte each time.
 */
#include "base/fd.h"
#include "base/log.h"
#include "vm/control.h"
#include "vm/monitor.h"

#include <string.h>
#include <sys/socket.h>

#define ASK_TIMEOUT_MS 10000

static bool is_there(const struct monitor *monitor)
{
	return monitor->phase == PHASE_CREATED || monitor->phase == PHASE_RUNNING;
}

static void answer(struct client *client, const char *text, const struct err *err)
{
	struct err reason;

	if (!err && fd_write_full(client->file, text, strlen(text)) < 0) {
		err_set(&reason, errno, "write the answer");
		err = &reason;
	}
	client_reply(client, err);
}

static void told(void *data, const char *text, const struct err *err)
{
	answer(data, text, err);
}

/* Of a paused machine what it said before is as true as ever. */
static void answer_paused(struct client *client, bool processes)
{
	const struct pausing *pausing = &client->monitor->pausing;
	const char *text = processes ? pausing->processes : pausing->stats;
	struct err err;

	err_set(&err, 0, "the container is paused, and the guest had no answer before");
	answer(client, text, text ? NULL : &err);
}

void asking_begin(struct client *client, bool processes, int *file)
{
	struct monitor *monitor = client->monitor;
	struct err err;
	int r;

	fd_replace(&client->file, fd_steal(file));
	if (!is_there(monitor)) {
		client_refuse(client, "the container is not running");
		return;
	}
	if (monitor->pausing.paused) {
		answer_paused(client, processes);
		return;
	}
	client->waiting = true;
	r = processes ? agent_processes(monitor->agent, monitor->container->id, ASK_TIMEOUT_MS,
					told, client, &err)
		      : agent_stats(monitor->agent, monitor->container->id, ASK_TIMEOUT_MS, told,
				    client, &err);
	if (r < 0)
		client_reply(client, &err);
}

static void updated(void *data, const struct err *err)
{
	client_reply(data, err);
}

static int update(struct client *client, const struct control_request *request, int file,
		  struct err *err)
{
	struct monitor *monitor = client->monitor;
	_cleanup_free_ char *text = NULL;

	if (monitor->pausing.paused)
		return err_set(err, ERR_NOT_RUNNING,
			       "the limits in a virtual machine that is paused cannot be changed: "
			       "resume the container first");
	if (request->size > CONTROL_TEXT_MAX)
		return err_set(err, E2BIG, "take limits of %u bytes", request->size);
	text = xcalloc((size_t)request->size + 1, 1);
	if (fd_read_full(file, text, request->size) != (ssize_t)request->size)
		return err_set(err, EIO, "take limits of %u bytes", request->size);
	return agent_update(monitor->agent, monitor->container->id, text, ASK_TIMEOUT_MS, updated,
			    client, err);
}

void asking_update(struct client *client, const struct control_request *request, int file)
{
	struct err err;

	if (!is_there(client->monitor)) {
		client_refuse(client, "the container is not running");
		return;
	}
	client->waiting = true;
	if (update(client, request, file, &err) < 0)
		client_reply(client, &err);
}

static void tell_watchers(struct monitor *monitor)
{
	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++) {
		struct client *client = &monitor->clients[i];

		if (client->watching && client->source.fd >= 0)
			(void)send(client->source.fd, "m", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void counted(void *data, uint64_t count, const struct err *err);

static void watch(struct monitor *monitor)
{
	struct err err;

	if (agent_watch_memory(monitor->agent, monitor->container->id, monitor->oom_kills, counted,
			       monitor, &err) < 0)
		log_debug("%s", err.text);
}

/* What there was before anybody watched is not told. */
static void counted(void *data, uint64_t count, const struct err *err)
{
	struct monitor *monitor = data;

	if (err) {
		monitor->watching = false;
		return;
	}
	if (monitor->oom_kills != UINT64_MAX && count > monitor->oom_kills)
		tell_watchers(monitor);
	monitor->oom_kills = count;
	watch(monitor);
}

void asking_watch(struct client *client)
{
	struct monitor *monitor = client->monitor;
	const struct err done = { 0 };
	int watchers = 0;

	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++)
		watchers += monitor->clients[i].watching && monitor->clients[i].source.fd >= 0;
	if (!is_there(monitor) || watchers >= MONITOR_WATCHERS_MAX) {
		client_refuse(client, watchers ? "too many watch the container's memory already"
					       : "the container is not running");
		return;
	}
	client->watching = true;
	(void)send(client->source.fd, &done, sizeof(done), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (monitor->watching)
		return;
	monitor->watching = true;
	monitor->oom_kills = UINT64_MAX;
	watch(monitor);
}
