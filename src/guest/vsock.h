/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections to the host (vsock(7)). */
#pragma once

#include "base/err.h"

#include <stdint.h>

/*
 * vsock_begin() - start to connect to a port of the host, without waiting.
 * Returns a non-blocking socket, or -1 with err set.
 */
int vsock_begin(uint32_t port, struct err *err);

/* vsock_finish() - wait until a connection is there. Returns 0, or -1 with err set. */
int vsock_finish(int fd, uint32_t port, struct err *err);
