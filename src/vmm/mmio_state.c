/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A virtio-mmio device's state, written down and put back. */
#include "vmm/snapshot.h"

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <sys/eventfd.h>

#define RUNNING                                                                                    \
	(VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK |      \
	 VIRTIO_CONFIG_S_DRIVER_OK)

/* Nobody is about to set it up. */
static bool is_settled(uint32_t status)
{
	return status == 0 || status == VIRTIO_CONFIG_S_ACKNOWLEDGE || status == RUNNING;
}

int mmio_save(const struct mmio_device *mmio, struct snapshot_device *state, struct err *err)
{
	const struct device *device = mmio->device;

	if (!is_settled(mmio->state.status))
		return err_set(err, 0, "the %s device has status %#x", device->ops->name,
			       mmio->state.status);
	state->type = device->ops->type;
	state->queues = device->queue_count;
	state->mmio = mmio->state;
	for (unsigned int i = 0; i < device->queue_count; i++) {
		state->queue[i] = device->queues[i].state;
		/* Who serves it has its state; it begins anew, so nothing may have begun. */
		if (device->ops->external && device->queues[i].avail_ring &&
		    __atomic_load_n(&device->queues[i].avail_ring->idx, __ATOMIC_ACQUIRE))
			return err_set(err, 0, "the %s device is in use", device->ops->name);
	}
	return 0;
}

int mmio_restore(struct mmio_device *mmio, const struct snapshot_device *state, struct err *err)
{
	struct device *device = mmio->device;

	if (state->type != device->ops->type || state->queues != device->queue_count ||
	    state->mmio.version != MMIO_STATE_VERSION || !is_settled(state->mmio.status) ||
	    (state->mmio.driver_features & ~mmio_features(mmio)))
		return err_set(err, 0, "restore the %s device", device->ops->name);
	mmio->state = state->mmio;
	mmio_publish(mmio);
	if (state->mmio.status != RUNNING)
		return 0;
	device->features = state->mmio.driver_features;
	for (unsigned int i = 0; i < device->queue_count; i++) {
		struct virtqueue *queue = &device->queues[i];

		queue->state = state->queue[i];
		if (queue->state.size > device->ops->queue_size ||
		    (queue->state.ready &&
		     virtqueue_activate(queue, mmio->memory, device->features, err) < 0))
			return err_set(err, 0, "restore queue %u of the %s device", i,
				       device->ops->name);
	}
	device->active = mmio->started = true;
	mmio_publish(mmio);
	return 0;
}

int mmio_reactivate(struct mmio_device *mmio, struct err *err)
{
	struct device *device = mmio->device;

	if (device->active && device->ops->activate)
		return device->ops->activate(device, err);
	return 0;
}

void mmio_again(struct mmio_device *mmio)
{
	struct device *device = mmio->device;

	if (!device->active)
		return;
	for (unsigned int i = 0; i < device->queue_count; i++)
		eventfd_write(device->kick_fds[i], 1);
	eventfd_write(device->call_fd, 1); /* one too many is looked at and ignored */
}
