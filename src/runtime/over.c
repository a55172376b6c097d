/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Containers that end while a command is busy with them. What was sent KILL is marked by a file in
 * its directory: whoever comes next waits for the end, which takes a moment, more in a guest.
 */
#include "runtime/private.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define KILLED	       "killed"
#define DYING_PAUSE_NS 5000000 /* between two looks whether it has ended */
#define DYING_PAUSES   400     /* 2 s in all */

/* Where it cannot be written, nobody waits. */
void over_mark(const struct instance *instance)
{
	_cleanup_fd_ int fd =
		openat(instance->state_fd, KILLED,
		       O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

bool over_wait(const struct instance *instance)
{
	const struct timespec pause = { 0, DYING_PAUSE_NS };

	for (int i = 0; i < DYING_PAUSES; i++) {
		if (instance_status(instance) == STATUS_STOPPED)
			return true;
		if (faccessat(instance->state_fd, KILLED, F_OK, 0) < 0)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

int over_explain(const struct instance *instance, const char *action, struct err *err)
{
	bool over = over_wait(instance);

	if (!state_is_current(instance))
		return state_none(instance->container.id, err);
	return over ? instance_wrong_state(instance, action, "", err) : -1;
}
