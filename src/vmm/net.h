/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network device (virtio 1.2, 5.1): moves frames between the guest's buffers and a tap, with the
 * checksums and segments left undone that the other side has agreed to do. Mergeable receive
 * buffers; one pair of queues, or several and then a control queue, by which the driver says how
 * many it uses. It knows nothing of addresses.
 */
#pragma once

#include "base/loop.h"
#include "vmm/device.h"
#include "vmm/vmm.h"

#include <limits.h>
#include <linux/virtio_net.h>

/* The kernel's virtio_net_hdr as virtio 1 has it: with num_buffers, always (5.1.6.1). */
#define NET_HEADER sizeof(struct virtio_net_hdr_v1)
/* An IP packet of 65,535 bytes, an Ethernet header, two VLAN tags. */
#define NET_FRAME_MAX  (65535u + 14u + 8u)
#define NET_PACKET_MAX (NET_FRAME_MAX + (uint32_t)NET_HEADER) /* as the tap gives and takes it */

enum { NET_RECEIVE, NET_TRANSMIT, NET_PAIR }; /* queues of a pair; pairs follow one another */

#define NET_PARTS_MAX 1024u /* what readv(2) takes: IOV_MAX */

/*
 * Requests taken from the receive queue and not given back, in order. They stay from one packet to
 * the next, so that a small packet costs one request and not the search for many.
 */
struct net_buffers {
	struct {
		uint16_t head;
		unsigned int parts;
		uint32_t size;
	} chain[VIRTQUEUE_SIZE_MAX];
	unsigned int first, count; /* of chain: [first, first + count) are there */
	struct iovec part[NET_PARTS_MAX];
	unsigned int first_part, parts;
	uint64_t size; /* bytes of all */
	bool complete; /* as many as there can be at once */
};

/* What a call works with. Nothing is kept in it; but it is large, and locals are zeroed. */
struct net_scratch {
	struct chain chain;
	struct iovec part[VIRTQUEUE_SIZE_MAX + 1];
};

/* A pair of queues, and the tap's queue that they are joined to. */
struct net_pair {
	struct net_device *net;
	unsigned int first; /* of its queues: NET_RECEIVE and NET_TRANSMIT are from there */
	struct source tap;  /* fd -1: none yet */
	bool readable;	    /* set by an (edge-triggered) event, cleared by EAGAIN */
	/* A packet that was read where buffers for the largest were not at hand, and waits. */
	uint8_t *packet;  /* NET_PACKET_MAX bytes */
	uint32_t waiting; /* its size; 0: none */
	struct net_buffers *buffers;
};

#define NET_OFFLOADS_UNKNOWN UINT_MAX

struct net_device {
	struct device device;
	struct loop *loop;
	struct net_scratch *scratch;
	unsigned int pair_count; /* that it has */
	unsigned int in_use;	 /* of these, by the driver's word: their taps take part */
	unsigned int offloads;	 /* of the taps, as they were set; NET_OFFLOADS_UNKNOWN: not yet */
	uint64_t changes_paid;	 /* see net_may_change(), in ms */
	struct net_pair pairs[VMM_NET_PAIRS_MAX];
};

/* net_init() - a placeholder with room for so many pairs, until net_attach(). */
void net_init(struct net_device *net, struct loop *loop, unsigned int pairs);
void net_free(struct net_device *net);

/*
 * net_attach() - make the placeholder a network card.
 * @taps: count descriptors, as vmm.h says at VMM_REQUEST_NET_ADD, each a pair; those that there is
 *        room for are taken from the caller, also on failure.
 *
 * Returns 0, or -1 with err set (EEXIST: it is one already).
 */
int net_attach(struct net_device *net, int *taps, unsigned int count, const uint8_t mac[6],
	       struct err *err);

/*
 * net_expect() - before that: it will have so many pairs, or as many as there is room for. The
 * number of its queues is right from here on.
 */
void net_expect(struct net_device *net, unsigned int pairs);

/* --- net_control.c -- */

/* net_control_queue() - the queue that is the control queue, by what was negotiated; -1: none. */
int net_control_queue(const struct net_device *net);

/* net_control() - serve it. Returns 0, or -1 with err set: the driver broke its ring. */
int net_control(struct net_device *net, struct err *err);

/*
 * net_use() - have the driver use so many pairs, 1 to pair_count: the other taps take no part.
 * Returns 0, or -1 with err set, and then it is one.
 */
int net_use(struct net_device *net, unsigned int pairs, struct err *err);

/*
 * net_may_change() - whether the driver may have its taps changed once more now, which is counted:
 * NET_CHANGES at once, and then one in NET_CHANGE_MS. The host's kernel has one lock for what any
 * interface is, and a driver could have it taken without end.
 */
#define NET_CHANGES   16u
#define NET_CHANGE_MS 1000u
bool net_may_change(struct net_device *net);

/* --- net_receive.c, net_send.c -- */

/* At most so many packets in one go; the loop's other work has its turn in between. */
#define NET_BATCH 64u

/* net_buffers_drop() - forget what was taken from a queue that is no more. */
void net_buffers_drop(struct net_buffers *buffers);

/*
 * net_receive() - from the tap into the guest's buffers, while there are both.
 * net_send() - from the guest's buffers to the tap. What the tap does not take is lost, as on any
 * network.
 * Each returns 0, or -1 with err set: the driver broke its ring.
 */
int net_receive(struct net_pair *pair, struct err *err);
int net_send(struct net_pair *pair, struct err *err);
