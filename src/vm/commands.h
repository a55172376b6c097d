/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine's operations on a running container: see engine/engine.h. */
#pragma once

#include "engine/engine.h"

int vm_pause(struct container *container, struct err *err);
int vm_resume(struct container *container, struct err *err);
int vm_update(struct container *container, const struct oci_linux_resources *resources,
	      struct err *err);
struct moat_stats *vm_stats(struct container *container, struct err *err);
int vm_oom_watch(struct container *container, struct err *err);
int vm_processes(struct container *container, pid_t **pids, size_t *count, struct err *err);
struct moat_processes *vm_describe(struct container *container, struct err *err);
