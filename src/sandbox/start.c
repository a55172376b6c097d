/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The caller's side of a start: one byte to init, then either the end of the connection, which
 * execve(2) brings as init's end is close-on-exec, or a struct err.
 */
#include "sandbox/sandbox.h"

#include "base/fd.h"

#include <sys/socket.h>

int sandbox_start(int socket, struct err *err)
{
	struct err answer;
	ssize_t n;

	if (send(socket, "s", 1, MSG_NOSIGNAL) != 1)
		return err_set(err, errno, "start the container");
	n = fd_read_full(socket, &answer, sizeof(answer));
	if (n < 0)
		return err_set(err, errno, "start the container");
	if (n == 0)
		return 0;
	if ((size_t)n != sizeof(answer))
		return err_set(err, 0, "start the container: it ended while it was being started");
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (err)
		*err = answer;
	return -1;
}
