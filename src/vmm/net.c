/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Network device: its life, and who is served when. */
#include "vmm/net.h"

#include "base/fd.h"

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
	if (ioctl(net->tap.fd, TUNSETOFFLOAD, wanted) < 0)
		return err_set(err, errno, "set the offloads of a tap to %#x", wanted);
	return 0;
}

static int net_notify(struct device *device, unsigned int queue, struct err *err)
{
	struct net_device *net = net_of(device);

	return queue == NET_RECEIVE ? net_receive(net, err) : net_send(net, err);
}

static void net_reset(struct device *device)
{
	struct net_device *net = net_of(device);

	net->waiting = 0;
	net_buffers_drop(net->buffers);
}

static int tap_ready(struct source *source, uint32_t events, struct err *err)
{
	struct net_device *net = source->data;
	struct err reason;

	net->readable = true;
	if (net->device.active && net_receive(net, &reason) < 0)
		device_broken(&net->device, &reason);
	return 0;
}

static const struct device_ops net_ops = {
	.name = "network",
	.type = VIRTIO_ID_NET,
	.queues = NET_QUEUES,
	.queue_size = VIRTQUEUE_SIZE,
	.features = F(MAC) | F(MRG_RXBUF) | F(CSUM) | F(HOST_TSO4) | F(HOST_TSO6) | F(HOST_ECN) |
		    F(GUEST_CSUM) | F(GUEST_TSO4) | F(GUEST_TSO6) | F(GUEST_ECN),
	.activate = net_activate,
	.notify = net_notify,
	.reset = net_reset,
};

void net_init(struct net_device *net, struct loop *loop)
{
	*net = (struct net_device){
		.device = { .ops = &net_ops, .absent = true },
		.loop = loop,
		.tap = { .fd = -1, .ready = tap_ready, .data = net },
	};
}

void net_free(struct net_device *net)
{
	loop_forget(net->loop, &net->tap);
	fd_replace(&net->tap.fd, -1);
	free(net->packet);
	free(net->buffers);
	free(net->scratch);
}

int net_attach(struct net_device *net, int tap, const uint8_t mac[6], struct err *err)
{
	_cleanup_fd_ int fd = tap;

	if (net->tap.fd >= 0)
		return err_set(err, EEXIST, "attach a tap to a network device");
	net->packet = xcalloc(1, NET_PACKET_MAX);
	net->buffers = xcalloc(1, sizeof(*net->buffers));
	net->scratch = xcalloc(1, sizeof(*net->scratch));
	net->tap.fd = fd_steal(&fd);
	/* The driver is not there yet: an event before it is remembered. */
	if (loop_watch(net->loop, &net->tap, EPOLLIN | EPOLLET, err) < 0)
		return -1;
	memcpy(net->device.config, mac, 6);
	net->device.config_size = offsetof(struct virtio_net_config, max_virtqueue_pairs);
	device_appear(&net->device);
	return 0;
}
