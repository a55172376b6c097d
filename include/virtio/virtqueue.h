/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device's side of a split virtqueue (virtio 1.2, 2.7), with EVENT_IDX and indirect
 * descriptors. The guest may write anything into the rings at any moment: every field is read once
 * into a local copy, checked, then used.
 */
#pragma once

#include "virtio/memory.h"

#include <stdbool.h>
#include <sys/uio.h>

#define VIRTQUEUE_SIZE_MAX 512u
#define VIRTQUEUE_SIZE	   256u /* of a queue with no reason for another */

/* All that the guest can see of a queue, in one plain struct: saving it saves the queue. */
struct virtqueue_state {
	uint32_t size; /* a power of two */
	uint32_t ready;
	uint64_t desc, avail, used; /* guest physical addresses */
	uint16_t next_avail;	    /* the next entry of the available ring to take */
	uint16_t next_used;	    /* the next entry of the used ring to fill */
	uint16_t signalled_used;    /* next_used at the last interrupt (EVENT_IDX) */
};

struct virtqueue {
	struct virtqueue_state state;
	/* set by virtqueue_activate(); the rings are NULL while inactive */
	const struct guest_memory *memory;
	bool event_idx, indirect;
	struct vring_desc *desc_ring;
	struct vring_avail *avail_ring;
	struct vring_used *used_ring;
};

/*
 * One request: the device-readable parts, then the device-writable ones, as host addresses that
 * have been checked. `head` names it in the used ring.
 */
struct chain {
	uint16_t head;
	uint16_t readable_count, writable_count;
	uint32_t readable_size, writable_size; /* bytes */
	struct iovec iov[VIRTQUEUE_SIZE_MAX];  /* readable ones first */
	/* cursors of chain_read() and chain_write() */
	uint32_t read_done, write_done;
};

/*
 * virtqueue_activate() - check the state's addresses and size, cache the rings.
 * Returns 0, or -1 with err set: the driver gave a ring that is not in its memory or misaligned.
 */
int virtqueue_activate(struct virtqueue *queue, const struct guest_memory *memory,
		       uint64_t features, struct err *err);

/* virtqueue_deactivate() - touch the rings no more: pop finds nothing, push does nothing. */
void virtqueue_deactivate(struct virtqueue *queue);

/*
 * virtqueue_pop() - take the next request.
 * Returns 1; 0 where there is none (and, with EVENT_IDX, kicks have been asked for and the ring
 * looked at again); -1 with err set where the ring is broken: serve it no more until a reset.
 */
int virtqueue_pop(struct virtqueue *queue, struct chain *chain, struct err *err);

/* virtqueue_unpop() - put the request just popped back: the next pop takes it again. */
void virtqueue_unpop(struct virtqueue *queue);

/*
 * virtqueue_push() - give a request back, `written` bytes of its writable part filled. Requests
 * may come back in any order. Does nothing on an inactive queue.
 */
void virtqueue_push(struct virtqueue *queue, uint16_t head, uint32_t written);

/*
 * virtqueue_stage(), virtqueue_publish() - the same for several requests that the driver must find
 * all at once: stage each, `ahead` counting them from 0, then publish how many they are.
 */
void virtqueue_stage(struct virtqueue *queue, uint16_t ahead, uint16_t head, uint32_t written);
void virtqueue_publish(struct virtqueue *queue, uint16_t count);

/*
 * virtqueue_should_signal() - whether the driver wants an interrupt for what was pushed since the
 * last call. The caller raises it.
 */
bool virtqueue_should_signal(struct virtqueue *queue);

/* chain_read() - copy the next bytes of the readable part. Returns how many there were. */
size_t chain_read(struct chain *chain, void *buffer, size_t size);
/* chain_write() - copy bytes to the writable part, behind those written so far. Returns how many
 * fitted. */
size_t chain_write(struct chain *chain, const void *buffer, size_t size);

/*
 * chain_rest_readable(), chain_rest_writable() - what chain_read() or chain_write() has not reached
 * yet, for readv(2) and writev(2). out has room for VIRTQUEUE_SIZE_MAX entries, which is less than
 * IOV_MAX. Returns how many there are.
 */
size_t chain_rest_readable(const struct chain *chain, struct iovec *out);
size_t chain_rest_writable(const struct chain *chain, struct iovec *out);
