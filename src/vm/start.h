/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `moat start`: looks at what the engine has made of the network, then has the monitor start. */
#pragma once

#include "engine/engine.h"

/* start_has_network() - whether a config gives the container a network namespace. */
bool start_has_network(const struct oci_config *config);

/* start_patience() - seconds that the guest has for a start. */
#define START_PATIENCE_MAX 604800u
uint32_t start_patience(const struct container *container);

/* vm_start() - engine_ops.start. */
int vm_start(struct container *container, struct err *err);
