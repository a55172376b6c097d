/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Standard streams. The connections are begun before the container is made, and used after. */
#include "guest/streams.h"

#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

void streams_init(struct streams *streams)
{
	*streams = (struct streams){ .console = { -1, -1 }, .master = -1 };
	for (int i = 0; i < 3; i++)
		streams->sockets[i] = streams->ours[i] = streams->workload[i] = -1;
}

static int make_pipe(struct streams *streams, int stream, struct err *err)
{
	int ends[2], writer = stream == 0 ? 0 : 1; /* which end of the pipe is ours */

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	streams->ours[stream] = ends[1 - writer];
	streams->workload[stream] = ends[writer];
	return 0;
}

/* A terminal has one connection for both ways, or one for each. */
static void use_terminal(struct streams *streams)
{
	streams->terminal = true;
	streams->ports[2] = 0;
	if (streams->ports[1] == streams->ports[0])
		streams->ports[1] = 0;
}

int streams_prepare(struct streams *streams, const struct agent *agent,
		    const Moat__Agent__Stdio *request, struct err *err)
{
	streams_init(streams);
	if (!request)
		return 0;
	streams->ports[0] = request->stdin_port;
	streams->ports[1] = request->stdout_port;
	streams->ports[2] = request->stderr_port;
	if (request->terminal)
		use_terminal(streams);
	if (streams->terminal && fd_socketpair(SOCK_STREAM | SOCK_NONBLOCK, streams->console) < 0)
		return err_set(err, errno, "make a socket pair");
	for (int i = 0; i < 3; i++) {
		if (!streams->ports[i])
			continue;
		streams->sockets[i] = agent->machine->connect(streams->ports[i], err);
		if (streams->sockets[i] < 0)
			return -1;
		if (!streams->terminal && make_pipe(streams, i, err) < 0)
			return -1;
	}
	return 0;
}

/* The engine has sent the terminal's master: it serves both ways and tells its size, so three of
 * it. */
static int take_master(struct streams *streams, struct err *err)
{
	char name[64];

	if (fd_receive(streams->console[0], name, sizeof(name), &streams->ours[0], 1) <= 0 ||
	    streams->ours[0] < 0)
		return err_set(err, 0, "take the terminal of the process: it was not sent");
	fd_replace(&streams->console[0], -1);
	fd_replace(&streams->console[1], -1);
	streams->ours[1] = fcntl(streams->ours[0], F_DUPFD_CLOEXEC, 3);
	streams->master = fcntl(streams->ours[0], F_DUPFD_CLOEXEC, 3);
	if (streams->ports[0] && !streams->ports[1])
		streams->sockets[1] = fcntl(streams->sockets[0], F_DUPFD_CLOEXEC, 3);
	if (streams->ours[1] < 0 || streams->master < 0 ||
	    (streams->ports[0] && streams->sockets[1] < 0))
		return err_set(err, errno, "duplicate the terminal of the process");
	return 0;
}

static void output_ended(struct pump *pump)
{
	struct streams *streams = pump->data;

	streams->ended(streams);
}

static int start_pump(struct streams *streams, struct agent *agent, int stream, struct err *err)
{
	int ours = fd_steal(&streams->ours[stream]), socket = fd_steal(&streams->sockets[stream]);

	if (stream == 0)
		return pump_start(&streams->pumps[0], &agent->loop, socket, ours, NULL, streams,
				  err);
	return pump_start(&streams->pumps[stream], &agent->loop, ours, socket, output_ended,
			  streams, err);
}

int streams_attach(struct streams *streams, struct agent *agent,
		   void (*ended)(struct streams *streams), struct err *err)
{
	streams->ended = ended;
	for (int i = 0; i < 3; i++) {
		fd_replace(&streams->workload[i], -1);
		if (streams->sockets[i] >= 0 &&
		    agent->machine->connected(streams->sockets[i], streams->ports[i], err) < 0)
			return -1;
	}
	if (streams->terminal && take_master(streams, err) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (streams->sockets[i] >= 0 && start_pump(streams, agent, i, err) < 0)
			return -1;
	return 0;
}

bool streams_is_drained(const struct streams *streams)
{
	return pump_is_idle(&streams->pumps[1]) && pump_is_idle(&streams->pumps[2]);
}

bool streams_has_ended(const struct streams *streams)
{
	return !pump_runs(&streams->pumps[1]) && !pump_runs(&streams->pumps[2]);
}

int streams_resize(const struct streams *streams, uint32_t rows, uint32_t columns, struct err *err)
{
	struct winsize size = {
		.ws_row = (unsigned short)(rows < USHRT_MAX ? rows : USHRT_MAX),
		.ws_col = (unsigned short)(columns < USHRT_MAX ? columns : USHRT_MAX),
	};

	if (streams->master < 0)
		return err_set(err, EINVAL, "the process has no terminal");
	if (ioctl(streams->master, TIOCSWINSZ, &size) < 0)
		return err_set(err, errno, "set the terminal's size");
	return 0;
}

void streams_close(struct streams *streams)
{
	for (int i = 0; i < 3; i++) {
		pump_stop(&streams->pumps[i]);
		fd_replace(&streams->sockets[i], -1);
		fd_replace(&streams->ours[i], -1);
		fd_replace(&streams->workload[i], -1);
	}
	fd_replace(&streams->console[0], -1);
	fd_replace(&streams->console[1], -1);
	fd_replace(&streams->master, -1);
}
