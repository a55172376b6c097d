/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entropy device: one queue. A request is served up to RNG_MAX bytes; the driver asks again for the
 * rest.
 */
#include "vmm/rng.h"

#include <linux/virtio_ids.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#define RNG_MAX	       256u /* what getrandom(2) gives in one piece, always */
#define RNG_QUEUE_SIZE 8u

static int rng_notify(struct device *device, unsigned int index, struct err *err)
{
	struct virtqueue *queue = &device->queues[index];
	unsigned int served = 0;
	struct chain chain;
	int r = 0;

	while (served < RNG_QUEUE_SIZE && (r = virtqueue_pop(queue, &chain, err)) > 0) {
		uint8_t bytes[RNG_MAX];
		ssize_t n = getrandom(bytes, sizeof(bytes), 0);

		virtqueue_push(queue, chain.head,
			       (uint32_t)chain_write(&chain, bytes, n > 0 ? (size_t)n : 0));
		served++;
	}
	/* A guest that asks as fast as it is served must not keep the loop from all else. */
	if (served == RNG_QUEUE_SIZE)
		eventfd_write(device->kick_fds[index], 1);
	device_signal(device, index);
	return r < 0 ? -1 : 0;
}

static const struct device_ops rng_ops = {
	.name = "entropy",
	.type = VIRTIO_ID_RNG,
	.queues = 1,
	.queue_size = RNG_QUEUE_SIZE,
	.notify = rng_notify,
};

void rng_init(struct device *device)
{
	*device = (struct device){ .ops = &rng_ops };
}
