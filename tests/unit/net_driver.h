/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest driver for the network device, in memory, with a datagram socket in the place of the tap.
 * For unit tests and the fuzzer. The program is linked with --wrap=ioctl: a socket has no offloads.
 */
#pragma once

#include "vmm/net.h"

#include <stdbool.h>
#include <stdint.h>

#define NET_QUEUE_SIZE	64u
#define NET_BUFFERS	0x100000ull /* receive buffer N is NET_BUFFER_ROOM bytes further */
#define NET_BUFFER_ROOM 0x4000u

#define NET_DRIVER_PAIRS 3u

struct net_driver {
	struct loop loop;
	struct net_device net;
	struct device_transport transport;
	struct guest_memory memory;
	int wire;			 /* the other end of the tap */
	int wires[NET_DRIVER_PAIRS];	 /* of each of its queues */
	bool attached[NET_DRIVER_PAIRS]; /* as TUNSETQUEUE said last */
	uint16_t posted, seen;
	uint32_t lengths[NET_QUEUE_SIZE]; /* of the buffers posted */
	uint32_t interrupts;
	bool event_idx; /* set before net_driver_activate(): kick only where the device asks */
	bool broken;
	struct err broken_by;
};

/* What TUNSETOFFLOAD was last called with; how often that or TUNSETQUEUE was called. */
extern unsigned int net_offloads, net_changes;

/*
 * net_driver_init() - a network card with these features, its driver ready, of one pair of queues;
 * net_driver_init_pairs() - of so many, at most NET_DRIVER_PAIRS. What posts, sends and receives is
 * about the first.
 */
void net_driver_init(struct net_driver *driver, uint64_t features);
void net_driver_init_pairs(struct net_driver *driver, uint64_t features, unsigned int pairs);
void net_driver_free(struct net_driver *driver);

/* net_driver_activate() - DRIVER_OK with empty queues; net_driver_reset() - the reset before it. */
void net_driver_activate(struct net_driver *driver, uint64_t features);
void net_driver_reset(struct net_driver *driver);

/* net_driver_post() - give a receive buffer of size bytes, and kick. */
void net_driver_post(struct net_driver *driver, uint32_t size);

/*
 * net_driver_post_huge() - give a buffer of almost 4 GiB, of parts that overlap, and kick. It is
 * never received from.
 */
#define NET_HUGE_PARTS 16u
#define NET_HUGE_PART  0x0ffffffcu
void net_driver_post_huge(struct net_driver *driver);

/*
 * net_driver_receive() - the next packet, header included, put together from its buffers.
 * @buffers: set to how many it had; may be NULL.
 *
 * Returns its size, 0 where there is none.
 */
uint32_t net_driver_receive(struct net_driver *driver, void *packet, size_t room,
			    unsigned int *buffers);

/* net_driver_send() - one request of these bytes, in two parts cut at `split`, and kick. */
void net_driver_send(struct net_driver *driver, const void *bytes, uint32_t size, uint32_t split);

/* net_driver_sent() - how many requests came back. */
uint16_t net_driver_sent(struct net_driver *driver);

/*
 * net_driver_command() - a request of the control queue, of these bytes, with room for the answer.
 * Returns that, or -1 where the device has written none.
 */
int net_driver_command(struct net_driver *driver, const void *bytes, uint32_t size, uint32_t room);

/* net_driver_kick() - serve a queue. net_driver_poll() - let the loop handle what is ready. */
void net_driver_kick(struct net_driver *driver, unsigned int queue);
unsigned int net_driver_poll(struct net_driver *driver);
