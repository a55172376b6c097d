/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the guest to the tap. The header goes to the host's kernel, which acts on it, so it is
 * copied, checked against the frame and what was negotiated, and rebuilt; the frame is sent from
 * where it lies.
 */
#include "vmm/net.h"

#include <endian.h>
#include <sys/eventfd.h>

#define FRAME_MIN 14u /* an Ethernet header */

/* Whether the driver may send segments of that kind. */
static bool may_segment(const struct net_device *net, uint8_t type)
{
	uint64_t needed;

	switch (type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		needed = 1ull << VIRTIO_NET_F_HOST_TSO4;
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		needed = 1ull << VIRTIO_NET_F_HOST_TSO6;
		break;
	default:
		return false;
	}
	if (type & VIRTIO_NET_HDR_GSO_ECN)
		needed |= 1ull << VIRTIO_NET_F_HOST_ECN;
	return (net->device.features & needed) == needed;
}

/* Makes a header of what the guest asks for (5.1.6.2). False: it asks for what cannot be. */
static bool check_header(const struct net_device *net, const struct virtio_net_hdr_v1 *given,
			 uint32_t frame, struct virtio_net_hdr_v1 *header)
{
	uint32_t start = le16toh(given->csum_start), offset = le16toh(given->csum_offset);
	uint32_t head = le16toh(given->hdr_len);

	*header = (struct virtio_net_hdr_v1){ 0 };
	if (given->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
		if (!(net->device.features & (1ull << VIRTIO_NET_F_CSUM)) || start < FRAME_MIN ||
		    start + offset + 2 > frame)
			return false;
		header->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		header->csum_start = given->csum_start;
		header->csum_offset = given->csum_offset;
	}
	if (given->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return true;
	if (!header->flags || !given->gso_size || !may_segment(net, given->gso_type))
		return false;
	header->gso_type = given->gso_type;
	header->gso_size = given->gso_size;
	header->hdr_len = htole16((uint16_t)(head < frame ? head : frame));
	return true;
}

static void send_one(struct net_pair *pair, struct chain *chain)
{
	const struct net_device *net = pair->net;
	struct iovec *part = net->scratch->part;
	struct virtio_net_hdr_v1 given, header;
	uint32_t size = chain->readable_size;

	if (size < NET_HEADER + FRAME_MIN || size > NET_PACKET_MAX ||
	    chain_read(chain, &given, sizeof(given)) != sizeof(given) ||
	    !check_header(net, &given, size - (uint32_t)NET_HEADER, &header))
		return;
	part[0] = (struct iovec){ .iov_base = &header, .iov_len = sizeof(header) };
	/* The kernel has its own copy afterwards, or has refused: both end the request. */
	(void)!writev(pair->tap.fd, part, 1 + (int)chain_rest_readable(chain, part + 1));
}

int net_send(struct net_pair *pair, struct err *err)
{
	struct device *device = &pair->net->device;
	unsigned int served = 0, number = pair->first + NET_TRANSMIT;
	struct virtqueue *queue = &device->queues[number];
	struct chain *chain = &pair->net->scratch->chain;
	int r = 0;

	while (served < NET_BATCH && (r = virtqueue_pop(queue, chain, err)) > 0) {
		send_one(pair, chain);
		virtqueue_push(queue, chain->head, 0);
		served++;
	}
	if (served == NET_BATCH)
		eventfd_write(device->kick_fds[number], 1);
	device_signal(device, number);
	return r < 0 ? -1 : 0;
}
