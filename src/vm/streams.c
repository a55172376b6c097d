/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Standard streams: the kinds of descriptors that engines and shells give, and how each can be used
 * without blocking and without changing it for others.
 */
#include "vm/streams.h"

#include "base/fd.h"
#include "oci/config.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

/*
 * Whether opening /proc/self/fd/N gives the same object: the master of a terminal gives a new one.
 */
static bool can_reopen(int fd, const struct stat *st)
{
	int number;

	return S_ISFIFO(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && isatty(fd) && ioctl(fd, TIOCGPTN, &number) < 0);
}

/* Fills in one stream. A descriptor that cannot be used in its direction is as good as none. */
static int open_stream(struct stream_port *stream, int fd, bool input, uint32_t port,
		       struct err *err)
{
	int mode = fcntl(fd, F_GETFL);
	struct stat st;

	if (mode < 0 || fstat(fd, &st) < 0 || (mode & O_PATH) ||
	    (mode & O_ACCMODE) == (input ? O_WRONLY : O_RDONLY) ||
	    (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		return 0;
	stream->flags = input ? VMM_PORT_READ : VMM_PORT_WRITE;
	stream->port = port;
	if (can_reopen(fd, &st) && !(mode & O_NONBLOCK))
		stream->fd = fd_reopen(fd, (input ? O_RDONLY : O_WRONLY) | O_NONBLOCK | O_NOCTTY);
	if (stream->fd >= 0)
		return 0;
	stream->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (stream->fd < 0)
		return err_set(err, errno, "duplicate descriptor %d", fd);
	if (S_ISSOCK(st.st_mode))
		stream->flags |= VMM_PORT_SOCKET;
	else if (!(mode & O_NONBLOCK) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		stream->flags |= VMM_PORT_BLOCKING;
	return 0;
}

/* The slave is what the vmm reads and writes, raw: the terminal proper is in the guest. */
static int open_terminal(struct stdio *stdio, int console_socket, uint32_t port, struct err *err)
{
	struct winsize size = { .ws_row = stdio->rows, .ws_col = stdio->columns };
	_cleanup_fd_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct stream_port *stream = &stdio->stream[0];
	struct termios raw;
	char name[64];

	if (master < 0 || unlockpt(master) < 0 || ptsname_r(master, name, sizeof(name)) != 0)
		return err_set(err, errno, "make a terminal");
	stream->fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (stream->fd < 0 || tcgetattr(stream->fd, &raw) < 0)
		return err_set(err, errno, "open terminal %s", name);
	cfmakeraw(&raw);
	if (tcsetattr(stream->fd, TCSANOW, &raw) < 0)
		return err_set(err, errno, "set up terminal %s", name);
	if (size.ws_row && size.ws_col)
		ioctl(stream->fd, TIOCSWINSZ, &size);
	if (fd_send(console_socket, name, strlen(name), &master, 1) < 0)
		return err_set(err, errno, "send the terminal to the console socket");
	stream->flags = VMM_PORT_READ | VMM_PORT_WRITE;
	stream->port = port;
	return 0;
}

int stdio_open(struct stdio *stdio, const struct oci_process *process, int console_socket,
	       uint32_t first_port, struct err *err)
{
	memset(stdio, 0, sizeof(*stdio));
	for (int i = 0; i < 3; i++)
		stdio->stream[i].fd = -1;
	if (!process || !process->terminal) {
		for (int i = 0; i < 3; i++)
			if (open_stream(&stdio->stream[i], i, i == 0, first_port + (uint32_t)i,
					err) < 0)
				return -1;
		return 0;
	}
	if (console_socket < 0)
		return err_set(err, 0, "process.terminal is set: --console-socket is needed");
	stdio->terminal = true;
	if (process->console_size) {
		stdio->rows = (uint16_t)process->console_size->height;
		stdio->columns = (uint16_t)process->console_size->width;
	}
	return open_terminal(stdio, console_socket, first_port, err);
}

int stdio_watch_size(int terminal, struct err *err)
{
	if (ioctl(terminal, TIOCSCTTY, 0) < 0)
		return err_set(err, errno, "make the terminal the session's");
	return 0;
}

bool stdio_take_size(int terminal, uint16_t *rows, uint16_t *columns)
{
	struct winsize size;

	if (ioctl(terminal, TIOCGWINSZ, &size) < 0 ||
	    (size.ws_row == *rows && size.ws_col == *columns))
		return false;
	*rows = size.ws_row;
	*columns = size.ws_col;
	return true;
}

void stdio_close(struct stdio *stdio)
{
	for (int i = 0; i < 3; i++)
		fd_replace(&stdio->stream[i].fd, -1);
}
