/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets for unit tests of the network device (net_driver.h): made, put on the wire or sent, and
 * compared with what arrives at the other side. What is not as it should be fails the test.
 */
#pragma once

#include "net_driver.h"

#include <sys/types.h>

#define NET_F(name) (1ull << VIRTIO_NET_F_##name)
#define NET_ALL                                                                                    \
	(NET_F(MRG_RXBUF) | NET_F(CSUM) | NET_F(HOST_TSO4) | NET_F(GUEST_CSUM) | NET_F(GUEST_TSO4))

/* What was made last, and what came last. */
extern uint8_t traffic_packet[NET_PACKET_MAX + 16], traffic_got[NET_PACKET_MAX + 16];

/* For cmocka: *state is a struct net_driver that has negotiated NET_ALL. */
int traffic_setup(void **state);
int traffic_teardown(void **state);

/* traffic_make() - of size bytes, its header included, that differs from others by `salt`. */
void traffic_make(uint32_t size, uint8_t salt);

/* traffic_arrive() - one comes over the wire. */
void traffic_arrive(struct net_driver *driver, uint32_t size, uint8_t salt);

/* traffic_expect() - that one reached the driver, in so many buffers; traffic_expect_nothing() -
 * none did. */
void traffic_expect(struct net_driver *driver, uint32_t size, uint8_t salt, unsigned int buffers);
void traffic_expect_nothing(struct net_driver *driver);

/*
 * traffic_transmit() - send one, whose header is the caller's.
 * Returns the size of what came over the wire, 0 for nothing.
 */
ssize_t traffic_transmit(struct net_driver *driver, const struct virtio_net_hdr_v1 *header,
			 uint32_t size, uint32_t split);
