/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The caller's side of a start: one byte to init, then either the end of the connection, which
 * execve(2) brings as init's end is close-on-exec, or a struct err.
 */
#include "sandbox/process.h"
#include "sandbox/sandbox.h"

#include "base/fd.h"

#include <sys/socket.h>

int sandbox_start(int socket, pid_t init, uint64_t start_time, struct err *err)
{
	struct err answer;
	ssize_t n;

	if (send(socket, "s", 1, MSG_NOSIGNAL) != 1)
		return err_set(err, errno, "start the container");
	n = fd_read_full(socket, &answer, sizeof(answer));
	if (n < 0 && errno == ECONNRESET) /* it has not even read that */
		return err_set(err, 0,
			       "start the container: it was killed before its program began");
	if (n < 0)
		return err_set(err, errno, "start the container");
	if (n == 0)
		return program_begun(init, start_time, err) ? 0
							    : err_wrap(err, "start the container");
	if ((size_t)n != sizeof(answer))
		return err_set(err, 0, "start the container: it ended while it was being started");
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (err)
		*err = answer;
	return -1;
}
