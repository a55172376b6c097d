/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The monitor's own mount namespace. Engines and people enter that of the pid that they know
 * (podman cp, nsenter -m): there they find the container's files, and not the host's.
 */
#pragma once

#include "base/err.h"

struct container;

/*
 * view_enter() - a new mount namespace whose root is the container's, with its bind mounts where
 * the guest has them, nodev, nosuid and noexec. What the guest mounts by itself (proc, a tmpfs) is
 * an empty read-only directory: nothing put there would reach the guest.
 *
 * Returns 0, or -1 with err set. No path of the host leads anywhere afterwards.
 */
int view_enter(const struct container *container, struct err *err);
