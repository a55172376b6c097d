/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rings of a virtqueue filled with the input, and a device that serves what it finds. Bytes go
 * to wherever the descriptors say; the sanitizer sees any that is not guest memory.
 */
#include "virtio/virtqueue.h"

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY 0x10000u
#define ROUNDS 64u
#define HEADER 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *host;
	static struct chain chain;
	struct guest_memory memory = { .count = 1 };
	struct virtqueue queue = { 0 };
	uint64_t features = 0;
	struct err err;

	if (size < HEADER)
		return 0;
	if (!host)
		host = malloc(MEMORY); /* the sanitizer guards its ends */
	memset(host, 0, MEMORY);
	memcpy(host, data + HEADER, size - HEADER < MEMORY ? size - HEADER : MEMORY);
	memory.slots[0] = (struct guest_slot){ .size = MEMORY, .host = host };
	/* The rings lie close together, so that short inputs fill them. */
	queue.state.size = 1u << (data[0] & 7);
	queue.state.desc = 0;
	queue.state.avail = 16 * queue.state.size + (data[1] & 0x1fu) * 2u;
	queue.state.used = 32 * queue.state.size + (data[1] >> 5) * 4u;
	queue.state.next_avail = data[2];
	features |= data[0] & 0x40 ? 1ull << VIRTIO_RING_F_EVENT_IDX : 0;
	features |= data[0] & 0x80 ? 1ull << VIRTIO_RING_F_INDIRECT_DESC : 0;
	if (virtqueue_activate(&queue, &memory, features, &err) < 0)
		return 0;
	for (unsigned int i = 0; i < ROUNDS && virtqueue_pop(&queue, &chain, &err) > 0; i++) {
		struct iovec rest[VIRTQUEUE_SIZE_MAX];
		uint8_t bytes[256];
		size_t n = chain_read(&chain, bytes, sizeof(bytes));

		chain_rest_readable(&chain, rest);
		n = chain_write(&chain, bytes, n);
		for (size_t j = chain_rest_writable(&chain, rest); j > 0; j--)
			memset(rest[j - 1].iov_base, 1, rest[j - 1].iov_len);
		virtqueue_push(&queue, chain.head, (uint32_t)n);
		virtqueue_should_signal(&queue);
	}
	return 0;
}
