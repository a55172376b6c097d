/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A filter with SCMP_ACT_NOTIFY has a listener, which an agent outside of the container must get
 * (runtime-spec, config-linux.md "The Container Process State"). From the moment that the filter is
 * loaded any system call of the process may wait for that agent, so the process says where its
 * listener is through shared memory, and its parent fetches it.
 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct oci_seccomp;

struct listener {
	atomic_int *slot; /* shared; NULL: no listener is expected */
};

/*
 * listener_prepare() - before the process is made.
 * @describes: the caller can make the container's state. 0, or -1 with err set.
 */
int listener_prepare(struct listener *listener, const struct oci_seccomp *seccomp, bool describes,
		     struct err *err);
void listener_release(struct listener *listener);

/*
 * listener_offer() - in the process: say that the listener is descriptor fd, or why there is none
 * (a negative errno), and wait without a system call until it has been fetched.
 */
void listener_offer(const struct listener *listener, int fd);

/*
 * listener_forward() - wait for the process to have its listener and send it to the agent.
 * @state: the container's state as JSON.
 */
int listener_forward(const struct listener *listener, pid_t pid, const struct oci_seccomp *seccomp,
		     const char *state, struct err *err);
