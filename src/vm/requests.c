/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests to the monitor: over the control socket, and as plain signals, which engines send to the
 * pid that they know. Both end as calls to the agent.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "vm/execution.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#define SIGNAL_TIMEOUT_MS 10000
#define KILL_TIMEOUT_MS	  10000 /* for the workload's end, after SIGKILL */

static void client_close(struct client *client)
{
	loop_forget(&client->monitor->loop, &client->source);
	fd_replace(&client->source.fd, -1);
}

void client_reply(struct client *client, const struct err *err)
{
	struct err message = { 0 };

	if (err)
		message = *err;
	client->waiting = false;
	fd_replace(&client->file, -1);
	if (client->source.fd >= 0)
		(void)send(client->source.fd, &message, sizeof(message),
			   MSG_DONTWAIT | MSG_NOSIGNAL);
	client_close(client);
}

void client_refuse(struct client *client, const char *reason)
{
	struct err err;

	err_set(&err, ERR_NOT_RUNNING, "%s", reason);
	client_reply(client, &err);
}

/*
 * A guest that does not act on SIGKILL is switched off: that is always possible. It may also lie:
 * so the end of the workload is waited for.
 */
static void signalled(void *data, const struct err *err)
{
	struct client *client = data;
	struct monitor *monitor = client->monitor;

	if (client->signal == SIGKILL && err && err->code != ERR_NOT_RUNNING) {
		log_warning("%s; the machine is switched off", err->text);
		monitor_stop(monitor, 128 + SIGKILL);
		err = NULL;
	} else if (client->signal == SIGKILL && monitor->phase <= PHASE_RUNNING) {
		monitor->killed = true;
		monitor_set_timer(monitor, KILL_TIMEOUT_MS);
	}
	client_reply(client, err);
}

static void forwarded(void *data, const struct err *err)
{
	if (err)
		log_debug("%s", err->text);
}

/* What is paused gets a signal when it goes on, but for SIGKILL, which ends it now. */
static void signal_paused(struct client *client, const struct control_request *request)
{
	struct monitor *monitor = client->monitor;
	struct err err;
	int r = 0;

	if (request->signal == SIGKILL)
		monitor_stop(monitor, 128 + SIGKILL);
	else
		r = agent_signal(monitor->agent, monitor->container->id, "", request->signal,
				 request->all != 0, 0, forwarded, NULL, &err);
	client_reply(client, r < 0 ? &err : NULL);
}

static void send_signal(struct client *client, const struct control_request *request)
{
	struct monitor *monitor = client->monitor;
	struct err err;

	if (monitor->phase == PHASE_DRAINING && request->signal == SIGKILL) {
		/* The workload is gone; its last output waits for a reader that does not read. */
		monitor_stop(monitor, monitor->status);
		client_reply(client, NULL);
		return;
	}
	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING) {
		client_refuse(client, "the container is not running");
		return;
	}
	if (request->signal < 1 || request->signal >= NSIG) {
		err_set(&err, EINVAL, "send signal %u", request->signal);
		client_reply(client, &err);
		return;
	}
	if (monitor->pausing.paused) {
		signal_paused(client, request);
		return;
	}
	client->signal = request->signal;
	client->waiting = true;
	if (agent_signal(monitor->agent, monitor->container->id, "", request->signal,
			 request->all != 0, SIGNAL_TIMEOUT_MS, signalled, client, &err) < 0)
		signalled(client, &err);
}

/* The connection is the process's from now on, and another client may have the place. */
static void execute(struct client *client, const struct control_request *request, int *fds)
{
	loop_forget(&client->monitor->loop, &client->source);
	execution_begin(client->monitor, request, fd_steal(&client->source.fd), fds);
}

static void serve(struct client *client, const struct control_request *request, int *fds)
{
	switch (request->type) {
	case CONTROL_START:
		starting_begin(client, request, fds);
		break;
	case CONTROL_KILL:
		send_signal(client, request);
		break;
	case CONTROL_EXEC:
		execute(client, request, fds);
		break;
	case CONTROL_PAUSE:
	case CONTROL_RESUME:
		pausing_begin(client, request->type == CONTROL_RESUME);
		break;
	case CONTROL_STATS:
	case CONTROL_PROCESSES:
		asking_begin(client, request->type == CONTROL_PROCESSES, &fds[0]);
		break;
	case CONTROL_UPDATE:
		asking_update(client, request, fds[0]);
		break;
	case CONTROL_WATCH:
		watching_begin(client);
		break;
	default:
		client_refuse(client, "the container's monitor does not know this request");
	}
}

static int client_ready(struct source *source, uint32_t events, struct err *err)
{
	struct client *client = source->data;
	int fds[CONTROL_DESCRIPTORS];
	struct control_request request;
	ssize_t n = fd_receive(source->fd, &request, sizeof(request), fds, CONTROL_DESCRIPTORS);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n != (ssize_t)sizeof(request) || client->waiting || client->watching)
		client_close(client); /* gone; an open call keeps its place until it is answered */
	else
		serve(client, &request, fds);
	for (int i = 0; i < CONTROL_DESCRIPTORS; i++)
		fd_replace(&fds[i], -1);
	return 0;
}

static int listener_ready(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;
	int fd = control_accept(source->fd);

	for (int i = 0; fd >= 0 && i < MONITOR_CLIENTS_MAX; i++) {
		struct client *client = &monitor->clients[i];

		if (client->source.fd >= 0 || client->waiting)
			continue;
		client->monitor = monitor;
		client->watching = false;
		client->source = (struct source){ .fd = fd, .ready = client_ready, .data = client };
		return loop_watch(&monitor->loop, &client->source, EPOLLIN, err);
	}
	fd_replace(&fd, -1); /* too many at once: they see the end and may try again */
	return 0;
}

/* An interrupted creation is undone; later the workload gets what the monitor gets. */
static int signal_ready(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;
	struct signalfd_siginfo info;
	struct err reason;

	if (read(source->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	if (monitor->phase < PHASE_CREATED) {
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT ||
		    info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT) {
			err_set(&reason, EINTR, "make the container (signal %u)", info.ssi_signo);
			monitor_fail(monitor, &reason);
		}
		return 0;
	}
	if (info.ssi_signo == SIGWINCH && monitor_take_size(monitor))
		return 0;
	if (monitor->phase <= PHASE_RUNNING &&
	    agent_signal(monitor->agent, monitor->container->id, "", info.ssi_signo, false,
			 monitor_timeout(monitor, SIGNAL_TIMEOUT_MS), forwarded, NULL, &reason) < 0)
		log_debug("%s", reason.text);
	return 0;
}

/* Those that are about the monitor itself are not the workload's. */
void requests_signals(sigset_t *set)
{
	static const int own[] = { SIGCHLD, SIGPIPE, SIGURG, SIGSEGV, SIGBUS,
				   SIGFPE,  SIGILL,  SIGSYS, SIGTRAP };

	sigfillset(set);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		sigdelset(set, own[i]);
}

int requests_init(struct monitor *monitor, struct err *err)
{
	sigset_t set;

	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++)
		monitor->clients[i].source.fd = monitor->clients[i].file = -1;
	requests_signals(&set);
	signal(SIGPIPE, SIG_IGN);
	monitor->signals = (struct source){ .ready = signal_ready, .data = monitor };
	monitor->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (monitor->signals.fd < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_set(err, errno, "take signals");
	monitor->listener = (struct source){ .ready = listener_ready, .data = monitor };
	monitor->listener.fd = control_listen(monitor->container->state_fd, err);
	if (monitor->listener.fd < 0)
		return -1;
	if (loop_watch(&monitor->loop, &monitor->signals, EPOLLIN, err) < 0)
		return -1;
	return loop_watch(&monitor->loop, &monitor->listener, EPOLLIN, err);
}

void requests_close(struct monitor *monitor)
{
	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++)
		fd_replace(&monitor->clients[i].source.fd, -1);
	fd_replace(&monitor->listener.fd, -1);
	fd_replace(&monitor->signals.fd, -1);
}
