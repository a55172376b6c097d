/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Network device: its life, and who is served when. */
#include "vmm/net.h"

#include "base/fd.h"
#include "base/log.h"

#include <endian.h>
#include <linux/if_tun.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define F(name) (1ull << VIRTIO_NET_F_##name)

static struct net_device *net_of(struct device *device)
{
	return (struct net_device *)device; /* its first member */
}

/* The tap leaves undone what the driver can do, and no more. */
static int net_activate(struct device *device, struct err *err)
{
	static const struct {
		uint64_t feature;
		unsigned int offload;
	} offloads[] = {
		{ F(GUEST_CSUM), TUN_F_CSUM },
		{ F(GUEST_TSO4), TUN_F_TSO4 },
		{ F(GUEST_TSO6), TUN_F_TSO6 },
		{ F(GUEST_ECN), TUN_F_TSO_ECN },
	};
	struct net_device *net = net_of(device);
	unsigned int wanted = 0;

	for (size_t i = 0; i < ARRAY_LEN(offloads); i++)
		if (device->features & offloads[i].feature)
			wanted |= offloads[i].offload;
	if (wanted == net->offloads)
		return 0;
	if (!net_may_change(net))
		return err_set(err, EBUSY, "set the offloads of a tap to %#x: too many changes",
			       wanted);
	if (ioctl(net->pairs[0].tap.fd, TUNSETOFFLOAD, wanted) < 0)
		return err_set(err, errno, "set the offloads of a tap to %#x", wanted);
	net->offloads = wanted;
	return 0;
}

/* A pair that the driver does not use has a tap that gives and takes nothing. */
static int net_notify(struct device *device, unsigned int queue, struct err *err)
{
	struct net_device *net = net_of(device);
	struct net_pair *pair = &net->pairs[queue / NET_PAIR];

	if ((int)queue == net_control_queue(net))
		return net_control(net, err);
	if (queue / NET_PAIR >= net->pair_count)
		return 0;
	return queue % NET_PAIR == NET_RECEIVE ? net_receive(pair, err) : net_send(pair, err);
}

static void net_reset(struct device *device)
{
	struct net_device *net = net_of(device);
	struct err err;

	if (net_use(net, 1, &err) < 0)
		log_warning("%s", err.text);
	for (unsigned int i = 0; i < net->pair_count; i++) {
		net->pairs[i].waiting = 0;
		net_buffers_drop(net->pairs[i].buffers);
	}
}

static int tap_ready(struct source *source, uint32_t events, struct err *err)
{
	struct net_pair *pair = source->data;
	struct device *device = &pair->net->device;
	struct err reason;

	pair->readable = true;
	if (device->active && net_receive(pair, &reason) < 0)
		device_broken(device, &reason);
	return 0;
}

static const struct device_ops net_ops = {
	.name = "network",
	.type = VIRTIO_ID_NET,
	.queues = NET_PAIR,
	.queue_size = VIRTQUEUE_SIZE,
	.features = F(MAC) | F(MRG_RXBUF) | F(CSUM) | F(HOST_TSO4) | F(HOST_TSO6) | F(HOST_ECN) |
		    F(GUEST_CSUM) | F(GUEST_TSO4) | F(GUEST_TSO6) | F(GUEST_ECN),
	.activate = net_activate,
	.notify = net_notify,
	.reset = net_reset,
};

void net_expect(struct net_device *net, unsigned int pairs)
{
	if (pairs < net->pair_count)
		net->pair_count = pairs;
	net->device.queue_count = NET_PAIR * net->pair_count + (net->pair_count > 1);
	net->device.offered = net->pair_count > 1 ? F(CTRL_VQ) | F(MQ) : 0;
}

void net_init(struct net_device *net, struct loop *loop, unsigned int pairs)
{
	*net = (struct net_device){
		.device = { .ops = &net_ops, .absent = true },
		.loop = loop,
		.pair_count = pairs,
		.in_use = 1,
		.offloads = NET_OFFLOADS_UNKNOWN,
	};
	for (unsigned int i = 0; i < pairs; i++)
		net->pairs[i] = (struct net_pair){
			.net = net,
			.first = NET_PAIR * i,
			.tap = { .fd = -1, .ready = tap_ready, .data = &net->pairs[i] },
		};
	net_expect(net, pairs);
}

void net_free(struct net_device *net)
{
	for (unsigned int i = 0; i < net->pair_count; i++) {
		struct net_pair *pair = &net->pairs[i];

		loop_forget(net->loop, &pair->tap);
		fd_replace(&pair->tap.fd, -1);
		free(pair->packet);
		free(pair->buffers);
	}
	free(net->scratch);
}

int net_attach(struct net_device *net, int *taps, unsigned int count, const uint8_t mac[6],
	       struct err *err)
{
	struct virtio_net_config config = { 0 };

	if (net->scratch)
		return err_set(err, EEXIST, "attach a tap to a network device");
	net_expect(net, count);
	net->scratch = xcalloc(1, sizeof(*net->scratch));
	for (unsigned int i = 0; i < net->pair_count; i++) {
		net->pairs[i].packet = xcalloc(1, NET_PACKET_MAX);
		net->pairs[i].buffers = xcalloc(1, sizeof(*net->pairs[i].buffers));
		net->pairs[i].tap.fd = fd_steal(&taps[i]);
	}
	/* The driver is not there yet: an event before it is remembered. */
	if (loop_watch(net->loop, &net->pairs[0].tap, EPOLLIN | EPOLLET, err) < 0)
		return -1;
	memcpy(config.mac, mac, sizeof(config.mac));
	config.max_virtqueue_pairs = htole16((uint16_t)net->pair_count);
	net->device.config_size = net->pair_count > 1
					  ? offsetof(struct virtio_net_config, mtu)
					  : offsetof(struct virtio_net_config, max_virtqueue_pairs);
	memcpy(net->device.config, &config, net->device.config_size);
	device_appear(&net->device);
	return 0;
}
