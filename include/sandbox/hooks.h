/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hooks: programs of the engine that run at points of a container's life (runtime-spec, config.md).
 */
#pragma once

#include "base/err.h"

#include <stddef.h>

struct oci_hook;

/*
 * hooks_output() - for all hooks of this process but those that run the container's own programs:
 * files of the host that their standard streams are appended to. NULL: as hooks_run() says. The
 * strings are the caller's, and have to stay.
 */
void hooks_output(const char *out, const char *errors);

/*
 * hooks_run() - run hooks one after the other, in the namespaces of the caller.
 * @kind: their name in config.json, for messages.
 * @state: JSON that each finds on its standard input.
 *
 * What a hook writes to standard error is part of the message where it fails; standard output is
 * dropped, as ours may be the container's. One that outlives its time-out is killed.
 * Returns 0; -1 with err set at the first that fails, and those after it are not run.
 */
int hooks_run(const struct oci_hook *hooks, size_t count, const char *kind, const char *state,
	      struct err *err);
