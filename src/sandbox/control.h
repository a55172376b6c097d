/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What plain_engine does to a running container; see engine/engine.h. */
#pragma once

#include "engine/engine.h"

#include <stddef.h>

/* plain_describe() - the state of a container (the context) as JSON; see sandbox_params. */
char *plain_describe(const void *context, pid_t pid, const char *status);

int plain_exec(struct container *container, const struct exec_options *options, pid_t *pid,
	       struct err *err);
int plain_pause(struct container *container, struct err *err);
int plain_resume(struct container *container, struct err *err);
int plain_update(struct container *container, const struct oci_linux_resources *resources,
		 struct err *err);
int plain_processes(struct container *container, pid_t **pids, size_t *count, struct err *err);
struct moat_stats *plain_stats(struct container *container, struct err *err);
int plain_oom_watch(struct container *container, struct err *err);
