/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's network, which is the container's. */
#pragma once

#include "base/err.h"
#include "rpc/agent.pb-c.h"

/*
 * guest_network_make() - have the kernel find the network cards that the machine has got, and give
 * them what the message says. Returns 0, or -1 with err set.
 */
int guest_network_make(const Moat__Agent__Network *network, struct err *err);
