/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest driver for unit tests of the virtio-mmio transport, with an entropy device behind it.
 * There are no threads: registers and queues are served in turn.
 */
#pragma once

#include "vmm/mmio.h"

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>

#define DRIVER_MEMORY	0x200000ull
#define DRIVER_SIZE	4u /* of a queue, whose parts are at: */
#define DRIVER_DESC	0x1000u
#define DRIVER_AVAIL	0x2000u
#define DRIVER_USED	0x3000u
#define DRIVER_BUFFER	0x4000u
#define DRIVER_FEATURES (1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX)

#define STATUS_UP_TO_FEATURES (VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER)
#define STATUS_UP_TO_QUEUES   (STATUS_UP_TO_FEATURES | VIRTIO_CONFIG_S_FEATURES_OK)
#define STATUS_RUNNING	      (STATUS_UP_TO_QUEUES | VIRTIO_CONFIG_S_DRIVER_OK)

struct mmio_driver {
	struct guest_memory memory;
	struct loop loop;
	struct device device;
	struct mmio_device mmio;
	uint32_t page[MMIO_SIZE / sizeof(uint32_t)];
	struct err err;
};

/* For cmocka: *state is a struct mmio_driver, whose device has been reset. */
int mmio_driver_setup(void **state);
int mmio_driver_teardown(void **state);

/* mmio_driver_at() - the guest's memory. */
void *mmio_driver_at(struct mmio_driver *f, uint64_t gpa);

/* mmio_get(), mmio_put() - a register. */
uint32_t mmio_get(struct mmio_device *mmio, uint64_t offset);
void mmio_put(struct mmio_device *mmio, uint64_t offset, uint32_t value);

/* The steps to DRIVER_OK: up to FEATURES_OK; one queue; and all of them with queue 0. */
void mmio_driver_negotiate(struct mmio_device *mmio, uint64_t features);
void mmio_driver_queue(struct mmio_device *mmio, uint32_t index, uint64_t desc);
void mmio_driver_start(struct mmio_driver *f);

/* mmio_driver_offer() - one buffer of len bytes for the device to write to. */
void mmio_driver_offer(struct mmio_driver *f, uint64_t addr, uint32_t len);

/* mmio_driver_serve() - let the loop serve what waits; mmio_driver_kick(): after a kick. */
void mmio_driver_serve(struct mmio_driver *f);
void mmio_driver_kick(struct mmio_driver *f);

/* mmio_driver_interrupted() - whether the device has interrupted since this was last asked. */
bool mmio_driver_interrupted(struct mmio_driver *f);
