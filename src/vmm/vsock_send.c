/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets to the guest: those that are due (a few bits of their stream), then data, read straight
 * into the guest's buffers. Without buffers nothing is read and nothing kept.
 */
#include "vmm/vsock_device.h"

#include <endian.h>
#include <sys/socket.h>
#include <linux/vm_sockets.h>

#define PACKET_MAX (64u << 10) /* bytes of payload */

/* Takes a buffer of the guest's. Returns 1; 0 where there is none; -1 with err set. */
static int take_buffer(struct vsock *vsock, struct chain *chain, struct err *err)
{
	int r = virtqueue_pop(&vsock->device.queues[QUEUE_RX], chain, err);

	if (r > 0 && chain->writable_size <= sizeof(struct virtio_vsock_hdr))
		return err_set(err, 0, "vsock: a receive buffer of %u bytes is too small",
			       chain->writable_size);
	return r;
}

static void give_buffer(struct vsock *vsock, struct chain *chain, struct virtio_vsock_hdr *packet)
{
	packet->src_cid = htole64(VMADDR_CID_HOST);
	packet->dst_cid = htole64(VSOCK_GUEST_CID);
	packet->type = htole16(VIRTIO_VSOCK_TYPE_STREAM);
	chain->write_done = 0;
	chain_write(chain, packet, sizeof(*packet));
	virtqueue_push(&vsock->device.queues[QUEUE_RX], chain->head,
		       (uint32_t)sizeof(*packet) + le32toh(packet->len));
}

static void give_stream_buffer(struct vsock *vsock, struct chain *chain, struct stream *stream,
			       uint16_t op, uint32_t flags, uint32_t size)
{
	struct virtio_vsock_hdr packet = {
		.src_port = htole32(stream->port),
		.dst_port = htole32(stream->guest_port),
		.len = htole32(size),
		.op = htole16(op),
		.flags = htole32(flags),
		.buf_alloc = htole32(VSOCK_BUFFER_MAX),
		.fwd_cnt = htole32(stream->forwarded),
	};

	stream->forwarded_told = stream->forwarded;
	stream->due &= ~(uint32_t)DUE_CREDIT;
	give_buffer(vsock, chain, &packet);
}

/* Sends one packet that is due. Returns 1; 0 where there is no buffer; -1 with err set. */
static int send_due(struct vsock *vsock, struct stream *stream, struct err *err)
{
	static const struct {
		uint32_t due;
		uint16_t op;
		uint32_t flags;
	} packets[] = {
		{ DUE_RESET, VIRTIO_VSOCK_OP_RST, 0 },
		{ DUE_RESPONSE, VIRTIO_VSOCK_OP_RESPONSE, 0 },
		{ DUE_SHUTDOWN, VIRTIO_VSOCK_OP_SHUTDOWN, VIRTIO_VSOCK_SHUTDOWN_SEND },
		{ DUE_CREDIT, VIRTIO_VSOCK_OP_CREDIT_UPDATE, 0 },
	};
	struct chain chain;
	size_t i = 0;
	int r = take_buffer(vsock, &chain, err);

	if (r <= 0)
		return r;
	while (!(stream->due & packets[i].due))
		i++;
	stream->due &= ~packets[i].due;
	give_stream_buffer(vsock, &chain, stream, packets[i].op, packets[i].flags, 0);
	return 1;
}

/* Reads into one buffer. Returns 1; 0 where there is no buffer; -1 with err set. */
static int send_data(struct vsock *vsock, struct stream *stream, struct err *err)
{
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
	uint32_t most = stream_credit(stream);
	struct chain chain;
	size_t count;
	uint32_t n;
	int r = take_buffer(vsock, &chain, err);

	if (r <= 0)
		return r;
	chain.write_done = sizeof(struct virtio_vsock_hdr);
	count = chain_rest_writable(&chain, iov);
	count = iov_cut(iov, count, most < PACKET_MAX ? most : PACKET_MAX);
	n = stream_read(stream, vsock->loop, iov, (int)count);
	if (n == 0)
		virtqueue_unpop(&vsock->device.queues[QUEUE_RX]);
	else
		give_stream_buffer(vsock, &chain, stream, VIRTIO_VSOCK_OP_RW, 0, n);
	return 1;
}

static int send_resets(struct vsock *vsock, struct err *err)
{
	while (vsock->resets_count > 0) {
		struct vsock_reset *reset = &vsock->resets[vsock->resets_count - 1];
		struct virtio_vsock_hdr packet = {
			.src_port = htole32(reset->port),
			.dst_port = htole32(reset->guest_port),
			.op = htole16(VIRTIO_VSOCK_OP_RST),
		};
		struct chain chain;
		int r = take_buffer(vsock, &chain, err);

		if (r <= 0)
			return r;
		give_buffer(vsock, &chain, &packet);
		vsock->resets_count--;
	}
	return 1;
}

int vsock_send(struct vsock *vsock, struct err *err)
{
	unsigned int batch = 0, idle = 0;
	int r = send_resets(vsock, err);

	while (r > 0 && idle < vsock->count) {
		struct stream *stream = vsock->streams[vsock->turn % vsock->count];

		if (batch++ >= VSOCK_BATCH_MAX) {
			vsock_again(vsock);
			break;
		}
		idle++;
		if (stream->due || stream_wants_read(stream)) {
			r = stream->due ? send_due(vsock, stream, err)
					: send_data(vsock, stream, err);
			idle = 0;
		}
		if (r > 0)
			vsock->turn = (vsock->turn + 1) % vsock->count;
	}
	device_signal(&vsock->device, QUEUE_RX);
	return r < 0 ? -1 : 0;
}
