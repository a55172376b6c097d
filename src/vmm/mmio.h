/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtio-mmio transport (virtio 1.2, 4.2), version 2 only: a page of registers, one edge
 * interrupt. The driver's progress (2.1, 3.1) is a state machine that cannot be gone through in
 * another order, and what a running device relies on cannot be changed.
 *
 * No read of a register does anything, so they are written to a page that the guest has as
 * read-only memory: there a read costs no exit, of which a driver makes dozens until it runs and
 * then one for each interrupt. Only writes come out of the guest.
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
	uint32_t interrupt_status; /* VIRTIO_MMIO_INT_CONFIG; see mmio_page.c of the other */
	uint64_t driver_features;
};

struct mmio_device {
	struct mmio_state state;
	struct device *device;
	uint32_t *page; /* what the guest reads */
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
 * @page: MMIO_SIZE bytes, zeroed, that the guest cannot write to; the caller's.
 * @loop: which serves the queues; not used for an external device.
 * @calls: how vCPU threads reach the loop's; NULL where there are no threads.
 *
 * The device stays the caller's. Returns 0, or -1 with err set.
 */
int mmio_init(struct mmio_device *mmio, struct device *device, uint32_t *page,
	      const struct guest_memory *memory, struct loop *loop, struct calls *calls,
	      struct err *err);
void mmio_free(struct mmio_device *mmio);

/* mmio_features() - what the device offers: its own features, and those of every device. */
uint64_t mmio_features(const struct mmio_device *mmio);

/*
 * mmio_publish() - write down what the guest reads, after a change of the state, under the lock or
 * while there are no vCPUs. mmio_publish_status() - only the status and the cause of the interrupt,
 * on any thread.
 */
void mmio_publish(struct mmio_device *mmio);
void mmio_publish_status(struct mmio_device *mmio);

/*
 * mmio_read(), mmio_write() - what a vCPU does at an offset into the page, 1, 2, 4 or 8 bytes.
 * The former where KVM has no read-only memory.
 */
void mmio_read(struct mmio_device *mmio, uint64_t offset, void *data, uint32_t size);
void mmio_write(struct mmio_device *mmio, uint64_t offset, const void *data, uint32_t size);
