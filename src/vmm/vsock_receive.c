/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets from the guest. Each field is hostile: what makes no sense ends its stream, is answered
 * with a reset, or is dropped. While the list of resets is full, packets stay in the queue.
 */
#include "vmm/vsock_device.h"

#include <endian.h>
#include <sys/socket.h>
#include <linux/vm_sockets.h>

static void reset_unknown(struct vsock *vsock, const struct virtio_vsock_hdr *packet)
{
	if (le16toh(packet->op) == VIRTIO_VSOCK_OP_RST)
		return;
	vsock->resets[vsock->resets_count].port = le32toh(packet->dst_port);
	vsock->resets[vsock->resets_count].guest_port = le32toh(packet->src_port);
	vsock->resets_count++;
}

static void receive_data(struct vsock *vsock, struct stream *stream, struct chain *chain,
			 uint32_t size)
{
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
	size_t count = chain_rest_readable(chain, iov);

	if (size > chain->readable_size - chain->read_done) {
		stream_kill(stream, vsock->loop);
		return;
	}
	count = iov_cut(iov, count, size);
	stream_write(stream, vsock->loop, iov, (int)count, size);
}

/* A packet for a stream that is open. */
static void receive_stream(struct vsock *vsock, struct stream *stream, struct chain *chain,
			   const struct virtio_vsock_hdr *packet)
{
	stream_note_credit(stream, packet);
	switch (le16toh(packet->op)) {
	case VIRTIO_VSOCK_OP_RW:
		receive_data(vsock, stream, chain, le32toh(packet->len));
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		stream->due |= DUE_CREDIT;
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		stream_shutdown(stream, vsock->loop, le32toh(packet->flags));
		break;
	case VIRTIO_VSOCK_OP_RST:
		stream_gone(stream, vsock->loop);
		break;
	default:
		stream_kill(stream, vsock->loop);
	}
}

/* Who told the guest of a port has told us before, but that may not have been looked at yet. */
static struct stream *find_or_wait(struct vsock *vsock, const struct virtio_vsock_hdr *packet)
{
	struct stream *stream = vsock_find(vsock, le32toh(packet->dst_port));

	if (stream || le16toh(packet->op) != VIRTIO_VSOCK_OP_REQUEST || !vsock->owner.missing)
		return stream;
	vsock->owner.missing(vsock->owner.data);
	return vsock_find(vsock, le32toh(packet->dst_port));
}

/* One packet of the guest's; what makes no sense is answered with a reset or not at all. */
static void receive(struct vsock *vsock, struct chain *chain)
{
	struct virtio_vsock_hdr packet;
	struct stream *stream;

	if (chain_read(chain, &packet, sizeof(packet)) != sizeof(packet) ||
	    le64toh(packet.src_cid) != VSOCK_GUEST_CID ||
	    le64toh(packet.dst_cid) != VMADDR_CID_HOST)
		return;
	stream = find_or_wait(vsock, &packet);
	if (!stream || le16toh(packet.type) != VIRTIO_VSOCK_TYPE_STREAM) {
		reset_unknown(vsock, &packet);
	} else if (stream->state == STREAM_WAITING) {
		vsock_watch(vsock, stream);
		if (le16toh(packet.op) != VIRTIO_VSOCK_OP_REQUEST ||
		    stream_open(stream, vsock->loop, le32toh(packet.src_port), NULL) < 0)
			reset_unknown(vsock, &packet);
		else
			stream_note_credit(stream, &packet);
	} else if (stream->guest_port != le32toh(packet.src_port) || stream->state == STREAM_GONE) {
		reset_unknown(vsock, &packet);
	} else if (stream->state == STREAM_OPEN) {
		receive_stream(vsock, stream, chain, &packet);
	} else if (le16toh(packet.op) == VIRTIO_VSOCK_OP_RST) {
		stream->due = 0; /* dead on both sides */
	}
}

int vsock_receive(struct vsock *vsock, struct err *err)
{
	struct virtqueue *queue = &vsock->device.queues[QUEUE_TX];
	unsigned int batch = 0;
	struct chain chain;
	int r = 0;

	while (vsock->resets_count < VSOCK_RESETS_MAX && batch++ < VSOCK_BATCH_MAX) {
		r = virtqueue_pop(queue, &chain, err);
		if (r <= 0)
			break;
		receive(vsock, &chain);
		virtqueue_push(queue, chain.head, 0);
	}
	if (r > 0 && vsock->resets_count < VSOCK_RESETS_MAX)
		vsock_again(vsock);
	device_signal(&vsock->device, QUEUE_TX);
	return r < 0 ? -1 : 0;
}
