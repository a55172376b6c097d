/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory balloon, for free page reporting: the guest names pages that it does not use, and the
 * holes punched there into the memory file are the host's until the guest writes to them again.
 * Its other two queues, by which the device would ask for pages, are there because drivers want
 * them; it never asks, and what comes there all the same goes back unread.
 */
#include "vmm/balloon.h"

#include "base/mem.h"

#include <linux/virtio_balloon.h>
#include <linux/virtio_ids.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

enum { QUEUE_INFLATE, QUEUE_DEFLATE, QUEUE_REPORTING, QUEUES };

/* Linux reports 32 ranges at a time, and does not report at all where fewer would fit. */
#define BALLOON_QUEUE_SIZE 32u
#define PARTS_MAX	   32u
/* Punching holes takes time that is not given to other devices. */
#define SERVED_MAX 4u
#define PAGE	   4096u

/*
 * Only whole pages: of others the rest may be in use. Where the range is not of the memory file
 * alone (a part is mapped from the kernel's file, or from a template), or smaller than its huge
 * pages, the kernel refuses: then the guest just keeps the memory.
 */
static void give_back(const struct iovec *part)
{
	uintptr_t start = ((uintptr_t)part->iov_base + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = ((uintptr_t)part->iov_base + part->iov_len) & ~(uintptr_t)(PAGE - 1);

	if (end > start)
		(void)madvise((void *)start, end - start, MADV_REMOVE);
}

/* The ranges are the buffers themselves, which virtqueue_pop() found to be in guest memory. */
static void serve(const struct chain *chain)
{
	const struct iovec *parts = chain->iov + chain->readable_count;

	for (unsigned int i = 0; i < chain->writable_count && i < PARTS_MAX; i++)
		give_back(&parts[i]);
}

static int balloon_notify(struct device *device, unsigned int index, struct err *err)
{
	struct virtqueue *queue = &device->queues[index];
	unsigned int served = 0;
	struct chain chain;
	int r = 0;

	while (served < SERVED_MAX && (r = virtqueue_pop(queue, &chain, err)) > 0) {
		if (index == QUEUE_REPORTING)
			serve(&chain);
		virtqueue_push(queue, chain.head, 0);
		served++;
	}
	/* The rest when other devices have had their turn. */
	if (served == SERVED_MAX)
		eventfd_write(device->kick_fds[index], 1);
	device_signal(device, index);
	return r < 0 ? -1 : 0;
}

static const struct device_ops balloon_ops = {
	.name = "memory balloon",
	.type = VIRTIO_ID_BALLOON,
	.queues = QUEUES,
	.queue_size = BALLOON_QUEUE_SIZE,
	.features = 1ull << VIRTIO_BALLOON_F_REPORTING,
	.notify = balloon_notify,
};

void balloon_init(struct device *device)
{
	/* num_pages and actual are 0, always. */
	*device = (struct device){ .ops = &balloon_ops,
				   .config_size = offsetof(struct virtio_balloon_config,
							   free_page_hint_cmd_id) };
}
