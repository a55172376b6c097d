/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rings of a split virtqueue (virtio 1.2, 2.7). All of them lie in memory that the guest
 * changes at will, so each field is loaded exactly once, into a local, and nothing is believed
 * that has not been compared with the queue's size or with guest memory.
 */
#include "virtio/virtqueue.h"

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <string.h>

#define LOAD(field)	    __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

/* The ring's place in guest memory, or NULL where it is outside or misaligned. */
static void *ring_at(const struct guest_memory *memory, uint64_t gpa, uint64_t size,
		     uint64_t alignment)
{
	return gpa % alignment ? NULL : guest_range(memory, gpa, size);
}

int virtqueue_activate(struct virtqueue *queue, const struct guest_memory *memory,
		       uint64_t features, struct err *err)
{
	const struct virtqueue_state *state = &queue->state;
	uint32_t size = state->size;

	virtqueue_deactivate(queue);
	if (!size || size > VIRTQUEUE_SIZE_MAX || (size & (size - 1)))
		return err_set(err, 0, "use a virtqueue of %u entries", size);
	/* Both rings are followed by a 16-bit field for EVENT_IDX, used or not. */
	queue->desc_ring = ring_at(memory, state->desc, sizeof(struct vring_desc) * size,
				   VRING_DESC_ALIGN_SIZE);
	queue->avail_ring =
		ring_at(memory, state->avail, sizeof(struct vring_avail) + 2ull * size + 2,
			VRING_AVAIL_ALIGN_SIZE);
	queue->used_ring =
		ring_at(memory, state->used,
			sizeof(struct vring_used) + sizeof(struct vring_used_elem) * size + 2ull,
			VRING_USED_ALIGN_SIZE);
	if (!queue->desc_ring || !queue->avail_ring || !queue->used_ring) {
		virtqueue_deactivate(queue);
		return err_set(
			err, EINVAL,
			"use virtqueue rings at %#llx, %#llx and %#llx, misaligned or not in "
			"guest memory",
			(unsigned long long)state->desc, (unsigned long long)state->avail,
			(unsigned long long)state->used);
	}
	queue->memory = memory;
	queue->event_idx = features & (1ull << VIRTIO_RING_F_EVENT_IDX);
	queue->indirect = features & (1ull << VIRTIO_RING_F_INDIRECT_DESC);
	return 0;
}

void virtqueue_deactivate(struct virtqueue *queue)
{
	queue->desc_ring = NULL;
	queue->avail_ring = NULL;
	queue->used_ring = NULL;
}

/*
 * How many requests wait. With EVENT_IDX an empty ring asks for a kick first, then looks again.
 * With those that the device has taken and not given back they cannot be more than the queue has
 * entries: what devices keep of requests under way has room for so many.
 */
static int ring_pending(struct virtqueue *queue, uint16_t *pending, struct err *err)
{
	uint16_t next = queue->state.next_avail;
	uint16_t held = (uint16_t)(next - queue->state.next_used);
	uint16_t count = (uint16_t)(LOAD_ACQUIRE(queue->avail_ring->idx) - next);

	if (!count && queue->event_idx) {
		/* avail_event: the field behind the used ring (2.7.10). */
		uint16_t *event = (uint16_t *)&queue->used_ring->ring[queue->state.size];

		STORE(*event, next);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		count = (uint16_t)(LOAD_ACQUIRE(queue->avail_ring->idx) - next);
	}
	if ((uint32_t)count + held > queue->state.size)
		return err_set(err, 0,
			       "take a request: the available ring jumped by %u of %u, while %u "
			       "are being served",
			       count, queue->state.size, held);
	*pending = count;
	return 0;
}

/* Checks one buffer and puts it behind those before it. */
static int chain_add(struct virtqueue *queue, struct chain *chain, uint64_t gpa, uint32_t length,
		     bool writable, struct err *err)
{
	unsigned int count = chain->readable_count + chain->writable_count;
	uint32_t *total = writable ? &chain->writable_size : &chain->readable_size;
	void *host = guest_range(queue->memory, gpa, length);

	if (count >= queue->state.size || count >= VIRTQUEUE_SIZE_MAX)
		return err_set(err, 0, "take a request: its chain is longer than the queue");
	if (!host)
		return err_set(err, 0, "take a request: buffer %#llx+%#x is not guest memory",
			       (unsigned long long)gpa, length);
	if (!writable && chain->writable_count)
		return err_set(err, 0, "take a request: a readable buffer after a writable one");
	if (__builtin_add_overflow(*total, length, total))
		return err_set(err, 0, "take a request: it is 4 GiB or larger");
	chain->iov[count] = (struct iovec){ .iov_base = host, .iov_len = length };
	if (writable)
		chain->writable_count++;
	else
		chain->readable_count++;
	return 0;
}

/* Once, into a copy. A table need not be aligned where it is an indirect one (2.7.5.3). */
static struct vring_desc desc_read(const uint8_t *table, uint16_t at)
{
	struct vring_desc desc;

	memcpy(&desc, table + at * sizeof(desc), sizeof(desc));
	__asm__ volatile("" : : : "memory"); /* the compiler does not read it again later */
	return desc;
}

/* Walks a table of count descriptors from entry `at`; sets *indirect where it leads to a table. */
static int chain_walk(struct virtqueue *queue, struct chain *chain, const void *table,
		      uint32_t count, uint16_t at, struct vring_desc *indirect, struct err *err)
{
	for (uint32_t seen = 0; seen < count; seen++) {
		struct vring_desc desc;

		if (at >= count)
			return err_set(err, 0, "take a request: descriptor %u of %u", at, count);
		desc = desc_read(table, at);
		if (desc.flags & VRING_DESC_F_INDIRECT) {
			if (!indirect || desc.flags & VRING_DESC_F_NEXT)
				return err_set(
					err, EINVAL,
					"take a request: an indirect table where none may be");
			*indirect = desc;
			return 0;
		}
		if (chain_add(queue, chain, desc.addr, desc.len, desc.flags & VRING_DESC_F_WRITE,
			      err) < 0)
			return -1;
		if (!(desc.flags & VRING_DESC_F_NEXT))
			return 0;
		at = desc.next;
	}
	return err_set(err, 0, "take a request: its descriptors form a loop");
}

static int chain_walk_indirect(struct virtqueue *queue, struct chain *chain,
			       const struct vring_desc *indirect, struct err *err)
{
	uint32_t count = indirect->len / (uint32_t)sizeof(struct vring_desc);
	const void *table;

	if (indirect->len % sizeof(struct vring_desc) || count > queue->state.size)
		return err_set(err, 0, "take a request: an indirect table of %u bytes",
			       indirect->len);
	table = guest_range(queue->memory, indirect->addr, indirect->len);
	if (!table)
		return err_set(err, 0,
			       "take a request: indirect table %#llx+%#x is not guest memory",
			       (unsigned long long)indirect->addr, indirect->len);
	return chain_walk(queue, chain, table, count, 0, NULL, err);
}

int virtqueue_pop(struct virtqueue *queue, struct chain *chain, struct err *err)
{
	uint32_t mask = queue->state.size - 1;
	struct vring_desc indirect = { 0 };
	uint16_t pending, head;

	if (!queue->avail_ring)
		return 0;
	if (ring_pending(queue, &pending, err) < 0)
		return -1;
	if (!pending)
		return 0;
	head = LOAD(queue->avail_ring->ring[queue->state.next_avail & mask]);
	chain->head = head;
	chain->readable_count = chain->writable_count = 0;
	chain->readable_size = chain->writable_size = 0;
	chain->read_done = chain->write_done = 0;
	if (chain_walk(queue, chain, queue->desc_ring, queue->state.size, head,
		       queue->indirect ? &indirect : NULL, err) < 0)
		return -1;
	if (indirect.flags && chain_walk_indirect(queue, chain, &indirect, err) < 0)
		return -1;
	queue->state.next_avail++;
	return 1;
}

void virtqueue_unpop(struct virtqueue *queue)
{
	queue->state.next_avail--;
}

void virtqueue_stage(struct virtqueue *queue, uint16_t ahead, uint16_t head, uint32_t written)
{
	uint32_t mask = queue->state.size - 1;
	struct vring_used_elem *element;

	if (!queue->used_ring)
		return; /* the device was reset while the request was served */
	element = &queue->used_ring->ring[(uint16_t)(queue->state.next_used + ahead) & mask];
	STORE(element->id, head);
	STORE(element->len, written);
}

void virtqueue_publish(struct virtqueue *queue, uint16_t count)
{
	if (!queue->used_ring)
		return;
	queue->state.next_used = (uint16_t)(queue->state.next_used + count);
	__atomic_store_n(&queue->used_ring->idx, queue->state.next_used, __ATOMIC_RELEASE);
}

void virtqueue_push(struct virtqueue *queue, uint16_t head, uint32_t written)
{
	virtqueue_stage(queue, 0, head, written);
	virtqueue_publish(queue, 1);
}

bool virtqueue_should_signal(struct virtqueue *queue)
{
	uint16_t old = queue->state.signalled_used, now = queue->state.next_used;

	if (!queue->used_ring || old == now)
		return false;
	queue->state.signalled_used = now;
	/* The used index must be visible before the driver's wish is read (2.7.7.1, 2.7.10). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (queue->event_idx) {
		/* used_event: the field behind the available ring. */
		uint16_t event = LOAD(queue->avail_ring->ring[queue->state.size]);

		return vring_need_event(event, now, old);
	}
	return !(LOAD(queue->avail_ring->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}
