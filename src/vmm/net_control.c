/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control queue of a network device (virtio 1.2, 5.1.6.5), for one command: how many pairs of
 * queues the driver uses. The tap spreads what it receives over those of its queues that are
 * attached, so just these are.
 */
#include "vmm/net.h"

#include <endian.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>

#define F(name) (1ull << VIRTIO_NET_F_##name)

static int tap_take_part(const struct net_pair *pair, bool part)
{
	struct ifreq request = { .ifr_flags = part ? IFF_ATTACH_QUEUE : IFF_DETACH_QUEUE };

	return ioctl(pair->tap.fd, TUNSETQUEUE, &request);
}

/* A tap's queue can be waited for only while it is attached. */
static int pair_begin(struct net_pair *pair, struct err *err)
{
	if (tap_take_part(pair, true) < 0)
		return err_set(err, errno, "attach a queue to its tap");
	return loop_watch(pair->net->loop, &pair->tap, EPOLLIN | EPOLLET, err);
}

static void pair_end(struct net_pair *pair)
{
	loop_forget(pair->net->loop, &pair->tap);
	tap_take_part(pair, false);
	pair->readable = false;
	pair->waiting = 0;
}

int net_use(struct net_device *net, unsigned int pairs, struct err *err)
{
	while (net->in_use > pairs)
		pair_end(&net->pairs[--net->in_use]);
	while (net->in_use < pairs) {
		if (pair_begin(&net->pairs[net->in_use], err) < 0) {
			pair_end(&net->pairs[net->in_use]);
			net_use(net, 1, err);
			return -1;
		}
		net->in_use++;
	}
	return 0;
}

bool net_may_change(struct net_device *net)
{
	struct timespec now = { 0 };
	uint64_t ms;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (net->changes_paid < ms)
		net->changes_paid = ms;
	if (net->changes_paid + NET_CHANGE_MS > ms + NET_CHANGES * NET_CHANGE_MS)
		return false;
	net->changes_paid += NET_CHANGE_MS;
	return true;
}

int net_control_queue(const struct net_device *net)
{
	if (!(net->device.features & F(CTRL_VQ)))
		return -1;
	return NET_PAIR * (int)(net->device.features & F(MQ) ? net->pair_count : 1);
}

/* Returns what the driver is told. */
static uint8_t obey(struct net_device *net, struct chain *chain)
{
	struct virtio_net_ctrl_hdr header;
	struct virtio_net_ctrl_mq command;
	struct err err;
	uint16_t pairs;

	if (chain_read(chain, &header, sizeof(header)) != sizeof(header) ||
	    header.class != VIRTIO_NET_CTRL_MQ || header.cmd != VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET ||
	    !(net->device.features & F(MQ)) ||
	    chain_read(chain, &command, sizeof(command)) != sizeof(command))
		return VIRTIO_NET_ERR;
	pairs = le16toh(command.virtqueue_pairs);
	if (pairs == net->in_use)
		return VIRTIO_NET_OK;
	if (pairs < 1 || pairs > net->pair_count || !net_may_change(net) ||
	    net_use(net, pairs, &err) < 0)
		return VIRTIO_NET_ERR;
	return VIRTIO_NET_OK;
}

int net_control(struct net_device *net, struct err *err)
{
	unsigned int number = (unsigned int)net_control_queue(net), served = 0;
	struct virtqueue *queue = &net->device.queues[number];
	struct chain *chain = &net->scratch->chain;
	int r = 0;

	while (served < NET_BATCH && (r = virtqueue_pop(queue, chain, err)) > 0) {
		uint8_t answer = obey(net, chain);
		size_t written = chain_write(chain, &answer, sizeof(answer));

		virtqueue_push(queue, chain->head, (uint32_t)written);
		served++;
	}
	if (served == NET_BATCH)
		eventfd_write(net->device.kick_fds[number], 1);
	device_signal(&net->device, number);
	return r < 0 ? -1 : 0;
}
