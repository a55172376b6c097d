/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User namespaces that nobody lives in: what id-mapped mounts are told by (user_namespaces(7)). */
#pragma once

#include "base/err.h"

#include <sys/types.h>

/*
 * userns_make() - a new user namespace.
 * @proc: a procfs, by which it is opened.
 * @map: writes the maps of the process that lives in it meanwhile; 0, or -1 with err set.
 * @data: for map.
 * Returns a descriptor, or -1 with err set.
 */
int userns_make(int proc, int (*map)(const void *data, int proc, pid_t pid, struct err *err),
		const void *data, struct err *err);
