/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ties the monitor to its host: session, cgroup, network namespace, descriptors. */
#pragma once

#include "vm/machine.h"

/*
 * host_enter() - in the monitor, right after the fork: let go of what was the caller's, enter the
 * container's cgroup and network namespace. Until create has been told it dies with its parent.
 * Returns 0, or -1 with err set.
 */
int host_enter(const struct machine *machine, int ready_fd, struct err *err);

/* host_leave_stdio() - the streams are the vmm's now. Returns 0, or -1 with err set. */
int host_leave_stdio(struct err *err);
