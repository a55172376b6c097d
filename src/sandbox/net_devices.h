/* SPDX-License-Identifier: GPL-2.0-or-later */
/* linux.netDevices (runtime-spec, config-linux.md "Network Devices"). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct oci_linux;

struct net_devices {
	int own, inside;	    /* the two network namespaces */
	int own_link, inside_link;  /* routing sockets in them */
	struct moved_device *moved; /* owned */
	size_t count;
};

/*
 * net_devices_move() - move the devices of a config out of the caller's network namespace.
 * @namespace: descriptor of the container's, which stays the caller's.
 *
 * A device gets the name that the config has for it, of which the kernel fills in "%d", keeps its
 * permanent addresses of global scope, and is brought up. To be released in either case.
 * Returns 0, or -1 with err set.
 */
int net_devices_move(struct net_devices *devices, const struct oci_linux *config, int namespace,
		     struct err *err);

/*
 * net_devices_release() - forget them. @back: first move back what has been moved, under its old
 * name and with its addresses, as there will be no container. All zero: there is nothing to do.
 */
void net_devices_release(struct net_devices *devices, bool back);
