/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine's operation exec: see engine/engine.h. */
#pragma once

#include "engine/engine.h"

int vm_exec(struct container *container, const struct exec_options *options, pid_t *pid,
	    struct err *err);
