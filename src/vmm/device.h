/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A virtio device as its transport sees it, and the transport as the device sees it: a table of
 * operations each way. A device knows nothing of registers, a transport nothing of requests.
 *
 * Threads: every operation runs on the loop's thread, so a device needs no lock. The transport
 * moves what a vCPU asks for there, and the vCPU waits.
 */
#pragma once

#include "base/err.h"
#include "virtio/virtqueue.h"

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_QUEUES_MAX 9u /* of a network card: four pairs and one to control them */
#define DEVICE_CONFIG_MAX 64u

struct device;

struct device_ops {
	const char *name;
	uint32_t type;	     /* VIRTIO_ID_... */
	unsigned int queues; /* how many, unless the device says otherwise */
	uint16_t queue_size; /* the largest one offered, a power of two */
	/*
	 * Offered beside those of every device (VERSION_1, EVENT_IDX, INDIRECT_DESC): bits of
	 * the device's type.
	 */
	uint64_t features;
	bool external; /* another process serves the queues: their kicks do not come here */
	/*
	 * The driver is ready (DRIVER_OK): device->features and the queues that it made are valid.
	 * A queue that it did not make is inactive. NULL: nothing to do.
	 */
	int (*activate)(struct device *device, struct err *err);
	/*
	 * A kick: serve the queue until virtqueue_pop() finds nothing, or as many requests as
	 * the queue has entries and then kick oneself; then device_signal().
	 * -1 with err set: the driver broke its ring; the device stands still until it is reset.
	 */
	int (*notify)(struct device *device, unsigned int queue, struct err *err);
	/*
	 * Drop every request and all state of the connection to the driver. The queues are
	 * inactive already. Guest memory is not touched after it returns. NULL: nothing to do.
	 */
	void (*reset)(struct device *device);
};

struct device_transport {
	void (*signal)(struct device *device);
	void (*broken)(struct device *device, const struct err *err);
	void (*appear)(struct device *device);
};

struct device {
	const struct device_ops *ops;
	const struct device_transport *transport;
	void *transport_data;
	/* Set before the transport has it; 0: as many as ops say. At most DEVICE_QUEUES_MAX. */
	unsigned int queue_count;
	uint64_t offered;  /* likewise: what this one offers beside what ops do */
	uint64_t features; /* what was negotiated, while active */
	bool active;	   /* between DRIVER_OK and a reset or a failure */
	bool absent;	   /* a placeholder so far: the guest sees no device here */
	struct virtqueue queues[DEVICE_QUEUES_MAX];
	/*
	 * The transport's eventfds: kicks that come from the driver, the interrupt that goes to
	 * it. Only an external device looks at them.
	 */
	int kick_fds[DEVICE_QUEUES_MAX], call_fd;
	/* The configuration space, little-endian, as the guest reads it; it cannot write there. */
	uint8_t config[DEVICE_CONFIG_MAX];
	uint32_t config_size;
};

/* device_signal() - interrupt the driver, where it wants one for what was pushed to the queue. */
static inline void device_signal(struct device *device, unsigned int queue)
{
	if (virtqueue_should_signal(&device->queues[queue]))
		device->transport->signal(device);
}

/*
 * device_appear() - a placeholder becomes the device: its configuration space is filled. The guest
 * looks at the place again when it is told to (by the agent).
 */
static inline void device_appear(struct device *device)
{
	device->transport->appear(device);
}

/*
 * device_broken() - the driver broke a ring, found outside of notify(): nothing is served until
 * it resets the device (virtio 1.2, 2.1.2: DEVICE_NEEDS_RESET).
 */
static inline void device_broken(struct device *device, const struct err *err)
{
	device->transport->broken(device, err);
}
