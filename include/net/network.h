/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A container's network at level vm. An engine has prepared a network namespace; each of its
 * interfaces is joined to a tap there, frame by frame, and the guest behind the taps gets what the
 * namespace had: names, MACs, addresses, routes, neighbours, MTUs. The namespace's own kernel sees
 * none of the frames, so that nobody but the guest answers.
 */
#pragma once

#include "base/err.h"
#include "rpc/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETWORK_INTERFACES_MAX 8u
#define NETWORK_PAIRS_MAX      4u

/* --- on the host -- */

struct network {
	Moat__Agent__Network *message;		 /* what the guest is told */
	int interfaces[NETWORK_INTERFACES_MAX];	 /* index of each of its interfaces */
	bool of_program[NETWORK_INTERFACES_MAX]; /* a tap: a program has its other end */
	/* Queues of each one's tap. */
	int taps[NETWORK_INTERFACES_MAX][NETWORK_PAIRS_MAX];
	unsigned int pairs;
	int table; /* a socket: when the last descriptor of it is closed, the table is gone */
};

/* network_init() - none. */
void network_init(struct network *network);
void network_release(struct network *network);

/*
 * network_attach() - look at a network namespace, and forward its interfaces to taps.
 * @namespace: a descriptor of it, the caller's; -1: the one that the caller is in.
 * @pairs: how many queues a tap is to have, 1 to NETWORK_PAIRS_MAX; it may get one, see pairs.
 *
 * An interface is one that is up, is an Ethernet, and is not part of a bridge. Fills network, which
 * is to be released in both cases; the taps and the table last as long as their descriptors.
 * Returns 0, or -1 with err set: EBUSY where another machine has the namespace.
 */
int network_attach(struct network *network, int namespace, unsigned int pairs, struct err *err);

/* --- their parts, in the namespace -- */

/*
 * network_look() - fill network->message and the interfaces of it.
 * @link: netlink_open(NETLINK_ROUTE). Returns 0, or -1 with err set.
 */
int network_look(struct network *network, int link, struct err *err);

/*
 * tap_open() - make a tap named "moatN": up, silent, with virtio-net headers of 12 bytes.
 * @index: where its index is put.
 * @queues: filled with a descriptor (O_NONBLOCK) for each of count queues, also on failure, -1
 *          where there is none. Only the first one takes part in the tap's work (TUNSETQUEUE).
 *
 * Returns 0, or -1 with err set.
 */
int tap_open(int link, int *index, int *queues, unsigned int count, struct err *err);

/* A pair of interfaces of which each sends what the other receives. */
struct forward {
	int outer, inner; /* indexes: the engine's, and the tap */
	const char *outer_name;
	char inner_name[16];
};

/*
 * forward_make() - the nftables table that does it: family netdev, named FORWARD_TABLE.
 * Returns a descriptor, whose end is the table's; -1 with err set: EBUSY where there is one.
 */
#define FORWARD_TABLE "moat"
#define FORWARD_FROM  "from-" /* and the tap's name: the chain of what the guest sends */
int forward_make(const struct forward *forwards, size_t count, struct err *err);

/*
 * local_make() - let connections from within the namespace reach the guest by TCP and UDP.
 * @table: what forward_make() returned; ends this, too. @link: netlink_open(NETLINK_ROUTE).
 * @interface: the forwarded one; without an IPv4 address nothing is done.
 * Returns 0, or -1 with err set.
 */
int local_make(int table, int link, const struct forward *forward,
	       const Moat__Agent__Interface *interface, struct err *err);

/* --- in the guest, and for taps -- */

/*
 * network_be_silent() - let the kernel make no IPv6 address of its own for an interface: those that
 * it gets are all. Returns 0, or -1 with errno set.
 */
int network_be_silent(int link, int index);

/*
 * network_apply() - give interfaces their names, MTUs, addresses and neighbours, bring them up, and
 * add the routes.
 * @indexes: of the interfaces, in the message's order.
 *
 * Returns 0, or -1 with err set.
 */
int network_apply(const Moat__Agent__Network *network, const int *indexes, int link,
		  struct err *err);
