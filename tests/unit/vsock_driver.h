/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest driver for the socket device, in memory: rings in a memfd, packets made and taken by
 * hand. For unit tests and the fuzzer.
 */
#pragma once

#include "vmm/device.h"
#include "vmm/vsock.h"

#include <linux/virtio_vsock.h>
#include <stdbool.h>
#include <stdint.h>

#define DRIVER_QUEUE_SIZE 64u
#define DRIVER_BUFFER	  4096u /* bytes of a receive buffer, header included */

struct driver {
	struct loop loop;
	struct device *device;
	struct device_transport transport;
	struct guest_memory memory;
	int memory_fd;
	uint16_t rx_seen; /* used ring entries looked at */
	uint16_t rx_posted;
	uint32_t interrupts;
	bool broken;
	struct err broken_by;
	/* ports whose end was reported */
	uint32_t closed[64];
	uint32_t closed_count;
	void (*missing)(struct driver *driver); /* the owner's word on an unknown port; or NULL */
};

/* A packet from the device: header in host order, payload as it is. */
struct packet {
	struct virtio_vsock_hdr hdr;
	uint8_t data[DRIVER_BUFFER];
	uint32_t size;
};

void driver_init(struct driver *driver);
void driver_free(struct driver *driver);

/* driver_activate() - make the queues and set DRIVER_OK, also after driver_reset(). */
void driver_activate(struct driver *driver);
void driver_reset(struct driver *driver);

/* driver_post() - give count empty receive buffers and kick. */
void driver_post(struct driver *driver, unsigned int count);

/* driver_receive() - the next packet; false where there is none. */
bool driver_receive(struct driver *driver, struct packet *packet);

/* driver_send_raw() - one request of the bytes given, in two parts cut at `split`, and kick. */
void driver_send_raw(struct driver *driver, const void *bytes, uint32_t size, uint32_t split);

/* driver_send() - a packet from guest_port to port with this payload, and kick. */
void driver_send(struct driver *driver, uint16_t op, uint32_t port, uint32_t guest_port,
		 uint32_t flags, const void *data, uint32_t size);

/* What driver_send() says of the guest's credit. */
extern uint32_t driver_buf_alloc, driver_fwd_cnt;

/* driver_poll() - let the loop handle what is ready now. Returns how many events there were. */
unsigned int driver_poll(struct driver *driver);
