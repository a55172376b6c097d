/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page of registers as the guest reads it (virtio 1.2, 4.2.2). Nothing is in it that the guest
 * does not know or may not know: constants, and what its driver has written.
 */
#include "vmm/mmio.h"

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_mmio.h>
#include <string.h>

#define MAGIC  0x74726976u /* "virt" */
#define VENDOR 0x746f6f6du

static void put(struct mmio_device *mmio, uint64_t offset, uint32_t value)
{
	__atomic_store_n(&mmio->page[offset / sizeof(value)], value, __ATOMIC_SEQ_CST);
}

static uint32_t look(const uint32_t *value)
{
	return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

/*
 * Two threads may be here: each goes on until what it wrote is what holds, so the last one does.
 *
 * An interrupt always says "used buffers": whoever serves a queue raises it without looking here,
 * another process perhaps, and a driver that finds nothing has only looked in vain. So an
 * acknowledgement of that bit has nothing to do either.
 */
void mmio_publish_status(struct mmio_device *mmio)
{
	const struct mmio_state *state = &mmio->state;
	uint32_t status, causes;

	do {
		status = look(&state->status);
		causes = look(&state->interrupt_status);
		put(mmio, VIRTIO_MMIO_STATUS, status);
		put(mmio, VIRTIO_MMIO_INTERRUPT_STATUS, causes | VIRTIO_MMIO_INT_VRING);
	} while (status != look(&state->status) || causes != look(&state->interrupt_status));
}

/* CONFIG_GENERATION stays 0: a device that is there does not change its configuration. */
void mmio_publish(struct mmio_device *mmio)
{
	const struct device *device = mmio->device;
	const struct mmio_state *state = &mmio->state;
	const struct virtqueue *queue =
		state->queue_sel < device->queue_count ? &device->queues[state->queue_sel] : NULL;
	uint32_t select = state->device_features_sel;

	put(mmio, VIRTIO_MMIO_MAGIC_VALUE, MAGIC);
	put(mmio, VIRTIO_MMIO_VERSION, 2);
	put(mmio, VIRTIO_MMIO_VENDOR_ID, VENDOR);
	if (__atomic_load_n(&device->absent, __ATOMIC_ACQUIRE))
		return; /* a placeholder has no more (4.2.2.2), until device_appear() */
	put(mmio, VIRTIO_MMIO_DEVICE_FEATURES,
	    select < 2 ? (uint32_t)(mmio_features(mmio) >> (32 * select)) : 0);
	put(mmio, VIRTIO_MMIO_QUEUE_NUM_MAX, queue ? device->ops->queue_size : 0);
	put(mmio, VIRTIO_MMIO_QUEUE_READY, queue ? queue->state.ready : 0);
	/* There is no shared region (4.2.2). */
	for (uint64_t offset = VIRTIO_MMIO_SHM_LEN_LOW; offset <= VIRTIO_MMIO_SHM_BASE_HIGH;
	     offset += sizeof(uint32_t))
		put(mmio, offset, UINT32_MAX);
	memcpy(&mmio->page[VIRTIO_MMIO_CONFIG / sizeof(uint32_t)], device->config,
	       device->config_size);
	mmio_publish_status(mmio);
	put(mmio, VIRTIO_MMIO_DEVICE_ID, device->ops->type);
}

void mmio_read(struct mmio_device *mmio, uint64_t offset, void *data, uint32_t size)
{
	memset(data, 0, size);
	if (offset + size <= MMIO_SIZE)
		memcpy(data, (const uint8_t *)mmio->page + offset, size);
}
