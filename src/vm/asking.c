/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions about the container, and its limits. An answer is a text in the file that came with the
 * request: it may be long.
 */
#include "base/fd.h"
#include "base/log.h"
#include "vm/control.h"
#include "vm/monitor.h"

#include <string.h>

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
