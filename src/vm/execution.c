/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A further process from the request to its end. Its status is told when all its output was
 * delivered; where a child in the background keeps that open, or nobody reads it, after a while.
 */
#include "vm/execution.h"

#include "base/fd.h"
#include "base/log.h"
#include "oci/settings.h"
#include "vmm/vmm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define CALL_TIMEOUT_MS 10000
#define OUTPUT_WAIT_S	1
#define TEXTS		3      /* user, cgroup, process */
#define PORT_FIRST	65536u /* of those that are drawn; below are well-known ones */

struct execution {
	struct monitor *monitor;
	struct execution *next;
	struct source client; /* fd -1: it has gone, or knows the end */
	struct source timer;  /* fd -1: not needed yet */
	char id[16];
	struct stdio stdio; /* the ports; the descriptors are the vmm's */
	uint32_t undrained; /* bit N: stream N may still have output */
	unsigned int calls; /* to the agent, that refer to it and are open */
	bool running;	    /* its program was started */
	bool ended;	    /* its status is known */
	bool over;	    /* to be freed when no call is open any more */
	uint32_t status;
};

static void hear(void *data, const struct err *err)
{
	if (err)
		log_debug("%s", err->text);
}

static void execution_free(struct execution *execution)
{
	struct monitor *monitor = execution->monitor;
	struct execution **link = &monitor->executions;

	while (*link != execution)
		link = &(*link)->next;
	*link = execution->next;
	monitor->n_executions--;
	loop_forget(&monitor->loop, &execution->client);
	loop_forget(&monitor->loop, &execution->timer);
	fd_replace(&execution->client.fd, -1);
	fd_replace(&execution->timer.fd, -1);
	free(execution);
	monitor_check_drained(monitor);
}

static void close_client(struct execution *execution)
{
	loop_forget(&execution->monitor->loop, &execution->client);
	fd_replace(&execution->client.fd, -1);
}

static void tell(const struct execution *execution, const void *message, size_t size)
{
	if (execution->client.fd >= 0)
		(void)send(execution->client.fd, message, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void tell_end(struct execution *execution)
{
	struct control_end end = { .status = execution->status };

	tell(execution, &end, sizeof(end));
	close_client(execution);
}

static void forget_in_guest(struct execution *execution)
{
	struct monitor *monitor = execution->monitor;
	struct err err;

	if (agent_delete_process(monitor->agent, monitor->container->id, execution->id,
				 monitor_timeout(monitor, CALL_TIMEOUT_MS), hear, NULL, &err) < 0)
		log_debug("%s", err.text);
}

static void remove_ports(const struct execution *execution)
{
	for (int i = 0; i < 3; i++)
		if (execution->stdio.stream[i].port)
			machine_remove_port(execution->monitor->machine,
					    execution->stdio.stream[i].port);
}

static void end(struct execution *execution)
{
	close_client(execution);
	execution->over = true;
	if (execution->calls == 0)
		execution_free(execution);
}

static void finish_if_delivered(struct execution *execution)
{
	if (!execution->ended || execution->undrained || execution->over)
		return;
	tell_end(execution);
	forget_in_guest(execution);
	end(execution);
}

void execution_port_closed(struct monitor *monitor, uint32_t port)
{
	for (struct execution *e = monitor->executions; e; e = e->next) {
		for (int i = 0; i < 3; i++) {
			if (!port || e->stdio.stream[i].port != port)
				continue;
			e->undrained &= ~(1u << i);
			finish_if_delivered(e);
			return;
		}
	}
}

static int waited_for_output(struct source *source, uint32_t events, struct err *err)
{
	struct execution *execution = source->data;

	loop_forget(&execution->monitor->loop, source);
	tell_end(execution);
	return 0;
}

static int start_timer(struct execution *execution, struct err *err)
{
	struct itimerspec when = { .it_value = { .tv_sec = OUTPUT_WAIT_S } };

	execution->timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = waited_for_output,
		.data = execution,
	};
	if (execution->timer.fd < 0 || timerfd_settime(execution->timer.fd, 0, &when, NULL) < 0)
		return err_set(err, errno, "make a timer");
	return loop_watch(&execution->monitor->loop, &execution->timer, EPOLLIN, err);
}

static void ended(void *data, uint32_t status, bool oom, const struct err *err)
{
	struct execution *execution = data;
	struct err reason;

	execution->calls--;
	if (err)
		log_debug("%s", err->text);
	else if (execution->over) /* it was given up, and ran nevertheless */
		forget_in_guest(execution);
	if (err || !execution->running || execution->over) {
		if (!execution->over)
			remove_ports(execution);
		end(execution); /* its client sees that the connection ends */
		return;
	}
	execution->ended = true;
	execution->status = status;
	if (execution->undrained && start_timer(execution, &reason) < 0) {
		log_warning("%s", reason.text);
		execution->undrained = 0;
	}
	finish_if_delivered(execution);
}

static void send_signal(struct execution *execution, uint32_t signal)
{
	struct monitor *monitor = execution->monitor;
	struct err err;

	if (!execution->running || execution->ended || signal < 1 || signal >= NSIG)
		return;
	if (agent_signal(monitor->agent, monitor->container->id, execution->id, signal, false,
			 monitor_timeout(monitor, CALL_TIMEOUT_MS), hear, NULL, &err) < 0)
		log_debug("%s", err.text);
}

static void resize(const struct execution *execution, const struct control_request *request)
{
	struct monitor *monitor = execution->monitor;
	struct err err;

	if (!execution->running || execution->ended || request->rows > UINT16_MAX ||
	    request->columns > UINT16_MAX)
		return;
	if (agent_resize(monitor->agent, monitor->container->id, execution->id, request->rows,
			 request->columns, monitor_timeout(monitor, CALL_TIMEOUT_MS), hear, NULL,
			 &err) < 0)
		log_debug("%s", err.text);
}

static int client_ready(struct source *source, uint32_t events, struct err *err)
{
	struct execution *execution = source->data;
	struct control_request request;
	ssize_t n = recv(source->fd, &request, sizeof(request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof(request)) {
		close_client(execution);
		send_signal(execution, SIGKILL);
	} else if (request.type == CONTROL_KILL) {
		send_signal(execution, request.signal);
	} else if (request.type == CONTROL_RESIZE) {
		resize(execution, &request);
	}
	return 0;
}

/* Replies; where there is an error, all is over. */
static void refuse(struct execution *execution, const struct err *err)
{
	tell(execution, err, sizeof(*err));
	remove_ports(execution);
	end(execution);
}

static void started(void *data, const struct err *err)
{
	struct execution *execution = data;
	struct err reason = { 0 };

	execution->calls--;
	if (err) {
		reason = *err;
		execution->running = err->code == ETIMEDOUT; /* it may come to run yet */
		send_signal(execution, SIGKILL);
		refuse(execution, &reason);
		return;
	}
	execution->running = true;
	if (execution->client.fd < 0)
		send_signal(execution, SIGKILL);
	tell(execution, &reason, sizeof(reason));
	if (execution->over) /* its end was told before its beginning */
		end(execution);
}

static bool is_taken(const struct monitor *monitor, uint32_t port)
{
	for (const struct execution *e = monitor->executions; e; e = e->next)
		for (int i = 0; i < 3; i++)
			if (e->stdio.stream[i].port == port)
				return true;
	return false;
}

/*
 * Any process of the guest may connect to a port. Where it could guess which comes next, it would
 * be there before the agent, and have the streams of another user's process. So ports are drawn.
 */
static int draw_port(const struct monitor *monitor, uint32_t *port, struct err *err)
{
	do
		if (getrandom(port, sizeof(*port), 0) != (ssize_t)sizeof(*port))
			return err_set(err, errno, "draw a port");
	while (*port < PORT_FIRST || *port == UINT32_MAX || is_taken(monitor, *port));
	return 0;
}

/* Gives the vmm the streams; with a port that fails, none is left. */
static int add_ports(struct execution *execution, const struct control_request *request,
		     const int *fds, struct err *err)
{
	struct monitor *monitor = execution->monitor;
	struct stdio *stdio = &execution->stdio;
	int next = 0;

	stdio->terminal = request->terminal != 0;
	stdio->rows = (uint16_t)request->rows;
	stdio->columns = (uint16_t)request->columns;
	for (int i = 0; i < 3; i++) {
		struct stream_port *stream = &stdio->stream[i];
		uint32_t port;

		stream->fd = -1;
		if (!request->stream[i].present || (stdio->terminal && i > 0))
			continue;
		stream->flags = request->stream[i].flags;
		if (draw_port(monitor, &port, err) < 0 ||
		    machine_add_port(monitor->machine, port, fds[next++], stream->flags, err) < 0)
			return -1;
		stream->port = port;
		if (stream->flags & VMM_PORT_WRITE)
			execution->undrained |= 1u << i;
	}
	return 0;
}

/* Takes the file apart: strings that lie in text, which is to be freed. */
static int read_texts(int file, uint32_t size, char **text, const char **texts, struct err *err)
{
	const char *at, *end;

	*text = NULL;
	if (size > CONTROL_TEXT_MAX)
		return err_set(err, E2BIG, "take a request of %u bytes", size);
	*text = xcalloc((size_t)size + 1, 1);
	if (fd_read_full(file, *text, size) != (ssize_t)size)
		return err_set(err, 0, "take a request: its text is shorter than it says");
	at = *text;
	end = *text + size;
	for (int i = 0; i < TEXTS; i++) {
		if (at >= end)
			return err_set(err, 0, "take a request: parts of its text are missing");
		texts[i] = at;
		at += strlen(at) + 1;
	}
	return 0;
}

static int run(struct execution *execution, const struct control_request *request, int *fds,
	       struct err *err)
{
	struct monitor *monitor = execution->monitor;
	struct agent_process process = { .id = monitor->container->id,
					 .exec_id = execution->id,
					 .stdio = &execution->stdio };
	_cleanup_free_ char *text = NULL;
	const char *texts[TEXTS];

	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING)
		return err_set(err, ERR_NOT_RUNNING, "the container is not running");
	if (monitor->n_executions > EXECUTIONS_MAX)
		return err_set(err, 0, "%u processes that were run with exec are there already",
			       EXECUTIONS_MAX);
	if (read_texts(fds[0], request->size, &text, texts, err) < 0 ||
	    add_ports(execution, request, fds + 1, err) < 0 ||
	    loop_watch(&monitor->loop, &execution->client, EPOLLIN, err) < 0)
		return -1;
	process.user = texts[0];
	process.cgroup = texts[1];
	process.process = texts[2];
	if (agent_exec(monitor->agent, &process,
		       monitor_timeout(monitor, monitor->container->settings->guest_timeout * 1000),
		       started, execution, err) < 0)
		return -1;
	execution->calls++;
	/* At once: the agent serves calls in their order, and most processes are short. */
	if (agent_wait(monitor->agent, monitor->container->id, execution->id, ended, execution,
		       err) < 0)
		return -1;
	execution->calls++;
	return 0;
}

void execution_begin(struct monitor *monitor, const struct control_request *request, int client,
		     int *fds)
{
	struct execution *execution = xcalloc(1, sizeof(*execution));
	struct err err;

	execution->monitor = monitor;
	execution->client =
		(struct source){ .fd = client, .ready = client_ready, .data = execution };
	execution->timer.fd = -1;
	snprintf(execution->id, sizeof(execution->id), "e%u", ++monitor->last_execution);
	execution->next = monitor->executions;
	monitor->executions = execution;
	monitor->n_executions++;
	if (run(execution, request, fds, &err) < 0)
		refuse(execution, &err);
}

void executions_close(struct monitor *monitor)
{
	while (monitor->executions)
		execution_free(monitor->executions);
}
