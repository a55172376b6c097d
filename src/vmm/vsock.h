/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Socket device (virtio 1.2, 5.10): streams that the guest opens to the host, CID 2. A table of
 * ports, filled by the monitor alone, says which descriptor each is joined to; any other port is
 * answered with a reset. Bytes go straight between the guest's buffers and the descriptor; what a
 * slow reader leaves is kept in a buffer that the stream's credit bounds.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"

#include <stdbool.h>
#include <stdint.h>

/* A table entry is a port that waits for the guest, or the stream that it has become. */
#define VSOCK_PORTS_MAX	 512u
#define VSOCK_BUFFER_MAX (256u << 10) /* bytes held for a descriptor that does not take them */

#define VSOCK_GUEST_CID 3u

struct device;

struct vsock_owner {
	/*
	 * A port's stream has ended and all the guest's bytes were delivered (or could not be); the
	 * entry is gone by then. Not called after vsock_port_remove().
	 */
	void (*closed)(void *data, uint32_t port);
	/*
	 * The guest asks for a port that is not in the table: add those that are about to be. May
	 * be NULL.
	 */
	void (*missing)(void *data);
	void (*knocks)(void *data); /* see vsock_hold() */
	void *data;
};

/*
 * vsock_new() - make the device; it works on the loop's thread only.
 * Returns it, or NULL with err set.
 */
struct device *vsock_new(struct loop *loop, const struct vsock_owner *owner, struct err *err);
void vsock_free(struct device *device);

/*
 * vsock_port_add() - let the guest connect to a port, once.
 * @fd: what the stream is joined to; owned by the device from now on, also on failure.
 * @flags: enum vmm_port_flags.
 *
 * Returns 0; -1 with err set: EEXIST, or ENOSPC where VSOCK_PORTS_MAX are in use.
 */
int vsock_port_add(struct device *device, uint32_t port, int fd, uint32_t flags, struct err *err);

/*
 * vsock_hold() - leave the guest's packets where they are, and call owner->knocks() when there is
 * one, or no longer. Those that waited are served at the next kick.
 */
void vsock_hold(struct device *device, bool hold);

/* vsock_port_remove() - forget a port, ending its stream at once. An unknown one is ignored. */
void vsock_port_remove(struct device *device, uint32_t port);
