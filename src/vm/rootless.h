/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MicroVMs of callers that are not root of the machine. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct oci_linux;

/* rootless_caller() - whether the caller lacks the right to namespaces, its own and new ones. */
bool rootless_caller(void);

/*
 * rootless_enter() - in the monitor, where the caller may not make namespaces: a user and a mount
 * namespace in which it may. Returns 0, or -1 with err set: the config maps ids that are not the
 * caller's, or the host lets no ordinary user make user namespaces.
 */
int rootless_enter(const struct oci_linux *linux_, struct err *err);

/*
 * rootless_one_way() - whether the caller, once in a container's network namespace, could not come
 * back: an ordinary user, or root of a user namespace (as podman makes one) that has no rights over
 * the network that it was called in.
 */
bool rootless_one_way(void);

/*
 * rootless_join() - enter a container's network namespace for good; a caller without rights enters
 * the user namespace of its monitor first. Returns 0, or -1 with err set.
 */
int rootless_join(pid_t pid, int network, struct err *err);

/*
 * rootless_jail_uid() - the id (user's and group's) for a process that owns nothing: the wanted one
 * where this user namespace has it, else the last of those it has, else JAIL_UID_OWN.
 */
uid_t rootless_jail_uid(uid_t wanted);
