/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtio-mmio transport (virtio 1.2, 4.2), version 2 only: a page of registers, one edge
 * interrupt. The driver's progress (2.1, 3.1) is a state machine that cannot be gone through in
 * another order, and what a running device relies on cannot be changed.
 */
#pragma once

#include "vmm/calls.h"
#include "vmm/device.h"

#define MMIO_BASE      0xd0000000ull
#define MMIO_SIZE      0x1000ull
#define MMIO_GSI_FIRST 5u

/* All that the guest can see of the transport, beside the queues' own state. */
#define MMIO_STATE_VERSION 1u
struct mmio_state {
	uint32_t version;
	uint32_t status; /* VIRTIO_CONFIG_S_... */
	uint32_t device_features_sel, driver_features_sel;
	uint32_t queue_sel;
	uint32_t interrupt_status; /* VIRTIO_MMIO_INT_... */
	uint64_t driver_features;
};

struct mmio_device {
	struct mmio_state state;
	struct device *device;
	const struct guest_memory *memory;
	struct calls *calls;
	pthread_mutex_t lock; /* one vCPU at a time; held while a call is waited for */
	struct mmio_kick {
		struct source source;
		struct mmio_device *mmio;
		unsigned int queue;
	} kicks[DEVICE_QUEUES_MAX];
	bool started; /* activate() has been called, reset() has not */
	bool warned;
};

/*
 * mmio_init() - put a device behind the transport's registers; makes its eventfds.
 * @loop: which serves the queues; not used for an external device.
 * @calls: how vCPU threads reach the loop's; NULL where there are no threads.
 *
 * The device stays the caller's. Returns 0, or -1 with err set.
 */
int mmio_init(struct mmio_device *mmio, struct device *device, const struct guest_memory *memory,
	      struct loop *loop, struct calls *calls, struct err *err);
void mmio_free(struct mmio_device *mmio);

/* mmio_features() - what the device offers: its own features, and those of every device. */
uint64_t mmio_features(const struct mmio_device *mmio);

/* mmio_read(), mmio_write() - what a vCPU does at an offset into the page, 1, 2, 4 or 8 bytes. */
void mmio_read(struct mmio_device *mmio, uint64_t offset, void *data, uint32_t size);
void mmio_write(struct mmio_device *mmio, uint64_t offset, const void *data, uint32_t size);
