/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ties the monitor to its host: session, cgroup, network namespace, descriptors. */
#pragma once

#include "vm/machine.h"

/*
 * host_check() - Returns 0, or -1 with err set where the config names a namespace of the host that
 * no guest can join.
 */
int host_check(const struct oci_config *config, struct err *err);

/*
 * host_enter() - in the monitor, right after the fork: let go of what was the caller's, enter the
 * container's cgroup, and its network namespace where the config names one. Until create has been
 * told it dies with its parent.
 * @claim: -1, gets a descriptor by which the network namespace is this machine's alone, while it is
 * open. Returns 0, or -1 with err set.
 */
int host_enter(const struct machine *machine, int ready_fd, int *claim, struct err *err);

/*
 * host_make_network() - where the config asks for a network namespace and names none: make it, and
 * enter it, for engines look behind the container's pid for it, to put interfaces into it. It takes
 * long, and the guest need not wait for it. @claim: as host_enter() left it.
 * Returns 0, or -1 with err set.
 */
int host_make_network(const struct oci_config *config, int *claim, struct err *err);

/* host_leave_stdio() - the streams are the vmm's now. Returns 0, or -1 with err set. */
int host_leave_stdio(struct err *err);
