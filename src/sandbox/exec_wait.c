/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The wait for a process that joins a container, and the signals that end it. */
#include "sandbox/exec_wait.h"

#include "base/mem.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>

#define NEWS_MS 50

/* Whether a signal is held back that is more than news of a child or of the terminal's size. */
static bool is_asked_to_end(void)
{
	static const int news[] = { SIGCHLD, SIGWINCH, SIGCONT, SIGURG };
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(news); i++)
		sigdelset(&pending, news[i]);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&pending, i) == 1)
			return true;
	return false;
}

int exec_wait(int sync, int signals_fd, struct err *err)
{
	struct pollfd fds[2] = { { .fd = sync, .events = POLLIN },
				 { .fd = signals_fd, .events = POLLIN } };

	if (!signals_fd)
		return 0;
	for (;;) {
		bool news = fds[1].revents;

		/* What is news only stays readable. */
		if (poll(fds, news ? 1 : 2, news ? NEWS_MS : -1) < 0 && errno != EINTR)
			return err_set(err, errno, "wait for the process");
		if (fds[0].revents)
			return 0;
		if (is_asked_to_end())
			return err_set(err, ERR_INTERRUPTED,
				       "ended by a signal while it was not running yet");
	}
}
