/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The terminal of `moat run` in the foreground. */
#include "cli/console.h"

#include "base/fd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int console_pair(struct console *console, int *other, struct err *err)
{
	int pair[2];

	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket for the terminal");
	console->socket = pair[0];
	console->master = -1;
	*other = pair[1];
	return 0;
}

void console_resize(const struct console *console)
{
	struct winsize size;

	if (console->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(console->master, TIOCSWINSZ, &size);
}

/* Copies one buffer. Returns 1, or 0 at the end (a terminal whose other side is gone gives EIO). */
static int copy_once(int from, int to)
{
	char buffer[16384];
	ssize_t n = read(from, buffer, sizeof(buffer));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	return n > 0 && fd_write_full(to, buffer, (size_t)n) == 0;
}

static int input_ready(struct source *source, uint32_t events, struct err *err)
{
	struct console *console = source->data;

	if (!copy_once(source->fd, console->master)) {
		static const char end_of_file =
			4; /* ^D: what a terminal's user types for the end */

		loop_forget(console->loop, source);
		(void)fd_write_full(console->master, &end_of_file, 1);
	}
	return 0;
}

static int output_ready(struct source *source, uint32_t events, struct err *err)
{
	struct console *console = source->data;

	if (!copy_once(source->fd, STDOUT_FILENO)) {
		loop_forget(console->loop, &console->input);
		loop_forget(console->loop, source);
	}
	return 0;
}

static int receive_master(struct console *console, struct err *err)
{
	char name[256];

	if (fd_receive(console->socket, name, sizeof(name), &console->master, 1) < 0)
		return err_set(err, errno, "receive the container's terminal");
	if (console->master < 0)
		return err_set(err, 0, "receive the container's terminal: no descriptor came");
	return 0;
}

int console_attach(struct console *console, struct loop *loop, struct err *err)
{
	struct termios raw;

	if (receive_master(console, err) < 0)
		return -1;
	console->loop = loop;
	console->input =
		(struct source){ .fd = STDIN_FILENO, .ready = input_ready, .data = console };
	console->output =
		(struct source){ .fd = console->master, .ready = output_ready, .data = console };
	if (tcgetattr(STDIN_FILENO, &console->saved) == 0) {
		raw = console->saved;
		cfmakeraw(&raw);
		console->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	console_resize(console);
	if (loop_watch(loop, &console->output, EPOLLIN, err) < 0)
		return -1;
	if (loop_watch(loop, &console->input, EPOLLIN, err) < 0 && err->code != EPERM)
		return -1; /* a regular file as input has nothing to wait for: it is not typed */
	return 0;
}

void console_close(struct console *console)
{
	struct pollfd poll_master = { .fd = console->master, .events = POLLIN };

	while (console->master >= 0 && poll(&poll_master, 1, 0) > 0 &&
	       (poll_master.revents & POLLIN) && copy_once(console->master, STDOUT_FILENO))
		;
	if (console->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &console->saved);
	fd_replace(&console->master, -1);
	fd_replace(&console->socket, -1);
}
