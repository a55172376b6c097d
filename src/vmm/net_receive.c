/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the tap to the guest. A read of the tap takes a whole packet or loses its end, and nobody
 * can say beforehand how large it is. So buffers for the largest are gathered and read into
 * directly; where the guest has given less, the packet is read aside and waits for what it needs.
 */
#include "vmm/net.h"

#include <endian.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

void net_buffers_drop(struct net_buffers *buffers)
{
	buffers->first = buffers->count = 0;
	buffers->first_part = buffers->parts = 0;
	buffers->size = 0;
}

static void buffers_compact(struct net_buffers *buffers)
{
	memmove(buffers->chain, buffers->chain + buffers->first,
		buffers->count * sizeof(buffers->chain[0]));
	memmove(buffers->part, buffers->part + buffers->first_part,
		buffers->parts * sizeof(buffers->part[0]));
	buffers->first = buffers->first_part = 0;
}

static void buffers_add(struct net_buffers *buffers, const struct chain *chain)
{
	if (buffers->first + buffers->count == VIRTQUEUE_SIZE_MAX ||
	    buffers->first_part + buffers->parts + chain->writable_count > NET_PARTS_MAX)
		buffers_compact(buffers);
	buffers->chain[buffers->first + buffers->count].head = chain->head;
	buffers->chain[buffers->first + buffers->count].parts = chain->writable_count;
	buffers->chain[buffers->first + buffers->count].size = chain->writable_size;
	memcpy(buffers->part + buffers->first_part + buffers->parts,
	       chain->iov + chain->readable_count, chain->writable_count * sizeof(struct iovec));
	buffers->parts += chain->writable_count;
	buffers->size += chain->writable_size;
	buffers->count++;
}

/* Without mergeable buffers a packet has one. Returns 0, or -1 with err set. */
static int buffers_fill(struct net_buffers *buffers, struct net_pair *pair, struct err *err)
{
	struct net_device *net = pair->net;
	struct virtqueue *queue = &net->device.queues[pair->first + NET_RECEIVE];
	bool merge = net->device.features & (1ull << VIRTIO_NET_F_MRG_RXBUF);
	unsigned int most = merge ? queue->state.size : 1;
	struct chain *chain = &net->scratch->chain;
	int r = 1;

	buffers->complete = false;
	while (buffers->size < NET_PACKET_MAX && !buffers->complete && buffers->count < most) {
		r = virtqueue_pop(queue, chain, err);
		if (r <= 0)
			break;
		if (chain->writable_size < NET_HEADER)
			return err_set(err, 0, "a buffer of %u bytes to receive into",
				       chain->writable_size);
		if (buffers->parts + chain->writable_count > NET_PARTS_MAX) {
			virtqueue_unpop(queue);
			buffers->complete = true;
			break;
		}
		buffers_add(buffers, chain);
	}
	if (buffers->count >= most)
		buffers->complete = true;
	return r < 0 ? -1 : 0;
}

static void copy_at(const struct iovec *part, unsigned int parts, size_t offset, const void *data,
		    size_t size)
{
	const uint8_t *bytes = data;

	for (unsigned int i = 0; i < parts && size; i++) {
		size_t n = part[i].iov_len;

		if (offset >= n) {
			offset -= n;
			continue;
		}
		n = n - offset < size ? n - offset : size;
		memcpy((uint8_t *)part[i].iov_base + offset, bytes, n);
		bytes += n;
		size -= n;
		offset = 0;
	}
}

/* A packet of size bytes lies in the buffers: the guest gets those that it fills. */
static void deliver(struct net_buffers *buffers, struct virtqueue *queue, uint32_t size)
{
	uint32_t left = size;
	uint16_t used = 0, number;

	for (uint64_t sum = 0; sum < size; used++)
		sum += buffers->chain[buffers->first + used].size;
	number = htole16(used);
	copy_at(buffers->part + buffers->first_part, buffers->parts,
		offsetof(struct virtio_net_hdr_v1, num_buffers), &number, sizeof(number));
	for (uint16_t i = 0; i < used; i++) {
		uint32_t room = buffers->chain[buffers->first + i].size;
		uint32_t filled = left < room ? left : room;

		virtqueue_stage(queue, i, buffers->chain[buffers->first + i].head, filled);
		left -= filled;
		buffers->size -= room;
		buffers->parts -= buffers->chain[buffers->first + i].parts;
		buffers->first_part += buffers->chain[buffers->first + i].parts;
	}
	/* All at once: a driver that sees the first looks for the others. */
	virtqueue_publish(queue, used);
	buffers->first += used;
	buffers->count -= used;
}

/* Returns the packet's size, 0 where there is none. It lies in the buffers, or aside. */
static uint32_t take_packet(struct net_pair *pair, const struct net_buffers *buffers, bool *aside)
{
	ssize_t n;

	*aside = buffers->size < NET_PACKET_MAX;
	if (*aside)
		n = read(pair->tap.fd, pair->packet, NET_PACKET_MAX);
	else
		n = readv(pair->tap.fd, buffers->part + buffers->first_part, (int)buffers->parts);
	if (n <= 0) /* there is no more, or the tap itself is gone */
		pair->readable = false;
	return n < (ssize_t)NET_HEADER || n > (ssize_t)NET_PACKET_MAX ? 0 : (uint32_t)n;
}

/* One packet. Returns 1; 0 where there is nothing to do; -1 with err set. */
static int receive_one(struct net_pair *pair, struct net_buffers *buffers, struct err *err)
{
	uint32_t size = pair->waiting;
	bool aside = true;

	if (!size && !pair->readable)
		return 0;
	if (buffers_fill(buffers, pair, err) < 0)
		return -1;
	if (!buffers->count)
		return 0;
	if (!size)
		size = take_packet(pair, buffers, &aside);
	pair->waiting = 0;
	if (!size)
		return pair->readable;
	if (size > buffers->size && !buffers->complete) {
		pair->waiting = size;
		return 0; /* the guest's next kick brings more */
	}
	if (size > buffers->size)
		return 1; /* it will never fit: lost */
	if (aside)
		copy_at(buffers->part + buffers->first_part, buffers->parts, 0, pair->packet, size);
	deliver(buffers, &pair->net->device.queues[pair->first + NET_RECEIVE], size);
	return 1;
}

int net_receive(struct net_pair *pair, struct err *err)
{
	struct device *device = &pair->net->device;
	unsigned int served = 0, queue = pair->first + NET_RECEIVE;
	int r = 1;

	while (served < NET_BATCH && (r = receive_one(pair, pair->buffers, err)) > 0)
		served++;
	if (served == NET_BATCH)
		eventfd_write(device->kick_fds[queue], 1);
	device_signal(device, queue);
	return r < 0 ? -1 : 0;
}
