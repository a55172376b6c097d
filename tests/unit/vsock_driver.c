/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The in-memory guest driver of vsock_driver.h. */
#include "vsock_driver.h"

#include <endian.h>
#include <linux/virtio_ring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_SIZE (2u << 20)
#define RING(queue) (0x10000ull + 0x10000ull * (queue))
#define RX_BUFFERS  0x80000ull
#define TX_BUFFERS  0x100000ull /* one of TX_SMALL bytes for every two descriptors */
#define TX_SMALL    0x4000u
#define TX_LARGE    0x180000ull /* for a request that is served before notify() returns */

uint32_t driver_buf_alloc = 1u << 20, driver_fwd_cnt;

static struct driver *current;

static void on_signal(struct device *device)
{
	current->interrupts++;
}

static void on_broken(struct device *device, const struct err *err)
{
	current->broken = true;
	current->broken_by = *err;
	device->active = false;
	for (unsigned int i = 0; i < device->ops->queues; i++)
		virtqueue_deactivate(&device->queues[i]);
}

static void on_missing(void *data)
{
	struct driver *driver = data;

	if (driver->missing)
		driver->missing(driver);
}

static void on_closed(void *data, uint32_t port)
{
	struct driver *driver = data;

	driver->closed[driver->closed_count++ % 64] = port;
}

void driver_init(struct driver *driver)
{
	struct err err;

	memset(driver, 0, sizeof(*driver));
	current = driver;
	driver_buf_alloc = 1u << 20;
	driver_fwd_cnt = 0;
	driver->transport = (struct device_transport){ .signal = on_signal, .broken = on_broken };
	driver->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	if (ftruncate(driver->memory_fd, MEMORY_SIZE) < 0 ||
	    guest_memory_map(&driver->memory, driver->memory_fd, MEMORY_SIZE, &err) < 0 ||
	    loop_init(&driver->loop, &err) < 0)
		abort();
	driver->device = vsock_new(
		&driver->loop,
		&(struct vsock_owner){ .closed = on_closed, .missing = on_missing, .data = driver },
		&err);
	if (!driver->device)
		abort();
	driver->device->transport = &driver->transport;
	driver_activate(driver);
}

void driver_free(struct driver *driver)
{
	vsock_free(driver->device);
	loop_close(&driver->loop);
	close(driver->memory_fd);
	munmap(driver->memory.slots[0].host, driver->memory.slots[0].size);
}

void driver_activate(struct driver *driver)
{
	struct device *device = driver->device;
	struct err err;

	memset(guest_range(&driver->memory, RING(0), 0x40000), 0, 0x40000);
	for (unsigned int i = 0; i < device->ops->queues; i++) {
		struct virtqueue *queue = &device->queues[i];

		memset(queue, 0, sizeof(*queue));
		queue->state.size = DRIVER_QUEUE_SIZE;
		queue->state.desc = RING(i);
		queue->state.avail = RING(i) + 0x4000;
		queue->state.used = RING(i) + 0x8000;
		if (virtqueue_activate(queue, &driver->memory, 0, &err) < 0)
			abort();
	}
	driver->rx_seen = driver->rx_posted = 0;
	device->active = true;
}

void driver_reset(struct driver *driver)
{
	struct device *device = driver->device;

	device->active = false;
	for (unsigned int i = 0; i < device->ops->queues; i++)
		virtqueue_deactivate(&device->queues[i]);
	device->ops->reset(device);
}

static void kick(struct driver *driver, unsigned int queue)
{
	struct err err;

	if (driver->device->active && driver->device->ops->notify(driver->device, queue, &err) < 0)
		on_broken(driver->device, &err);
}

void driver_post(struct driver *driver, unsigned int count)
{
	struct vring_desc *desc = guest_range(&driver->memory, RING(0), 0x4000);
	struct vring_avail *avail = guest_range(&driver->memory, RING(0) + 0x4000, 0x4000);

	for (unsigned int i = 0; i < count; i++) {
		uint16_t slot = driver->rx_posted++ % DRIVER_QUEUE_SIZE;

		desc[slot] =
			(struct vring_desc){ .addr = RX_BUFFERS + (uint64_t)slot * DRIVER_BUFFER,
					     .len = DRIVER_BUFFER,
					     .flags = VRING_DESC_F_WRITE };
		avail->ring[slot] = slot;
		avail->idx++;
	}
	kick(driver, 0);
}

bool driver_receive(struct driver *driver, struct packet *packet)
{
	struct vring_used *used = guest_range(&driver->memory, RING(0) + 0x8000, 0x8000);
	struct vring_used_elem element;
	uint8_t *buffer;

	if (driver->rx_seen == used->idx)
		return false;
	element = used->ring[driver->rx_seen++ % DRIVER_QUEUE_SIZE];
	buffer = guest_range(&driver->memory, RX_BUFFERS + element.id * (uint64_t)DRIVER_BUFFER,
			     DRIVER_BUFFER);
	memcpy(&packet->hdr, buffer, sizeof(packet->hdr));
	packet->hdr.op = le16toh(packet->hdr.op);
	packet->hdr.len = le32toh(packet->hdr.len);
	packet->size = element.len - (uint32_t)sizeof(packet->hdr);
	memcpy(packet->data, buffer + sizeof(packet->hdr), packet->size);
	return true;
}

void driver_send_raw(struct driver *driver, const void *bytes, uint32_t size, uint32_t split)
{
	struct vring_desc *desc = guest_range(&driver->memory, RING(1), 0x4000);
	struct vring_avail *avail = guest_range(&driver->memory, RING(1) + 0x4000, 0x4000);

	uint16_t slot = avail->idx % (DRIVER_QUEUE_SIZE / 2);
	uint16_t first = (uint16_t)(slot * 2);
	uint64_t at = size <= TX_SMALL ? TX_BUFFERS + (uint64_t)slot * TX_SMALL : TX_LARGE;

	memcpy(guest_range(&driver->memory, at, size), bytes, size);
	desc[first] = (struct vring_desc){ .addr = at, .len = size };
	if (split > 0 && split < size) {
		desc[first].len = split;
		desc[first].flags = VRING_DESC_F_NEXT;
		desc[first].next = (uint16_t)(first + 1);
		desc[first + 1] = (struct vring_desc){ .addr = at + split, .len = size - split };
	}
	avail->ring[avail->idx % DRIVER_QUEUE_SIZE] = first;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	kick(driver, 1);
}

void driver_send(struct driver *driver, uint16_t op, uint32_t port, uint32_t guest_port,
		 uint32_t flags, const void *data, uint32_t size)
{
	struct virtio_vsock_hdr hdr = {
		.src_cid = htole64(VSOCK_GUEST_CID),
		.dst_cid = htole64(2),
		.src_port = htole32(guest_port),
		.dst_port = htole32(port),
		.len = htole32(size),
		.type = htole16(VIRTIO_VSOCK_TYPE_STREAM),
		.op = htole16(op),
		.flags = htole32(flags),
		.buf_alloc = htole32(driver_buf_alloc),
		.fwd_cnt = htole32(driver_fwd_cnt),
	};
	uint8_t *bytes = malloc(sizeof(hdr) + size);

	memcpy(bytes, &hdr, sizeof(hdr));
	if (size)
		memcpy(bytes + sizeof(hdr), data, size);
	driver_send_raw(driver, bytes, (uint32_t)sizeof(hdr) + size, (uint32_t)sizeof(hdr));
	free(bytes);
}

unsigned int driver_poll(struct driver *driver)
{
	struct epoll_event event;
	unsigned int events = 0;
	struct err err;

	while (events < 10000 && epoll_wait(driver->loop.epoll_fd, &event, 1, 0) > 0) {
		struct source *source = event.data.ptr;

		events++;
		source->ready(source, event.events, &err);
	}
	return events;
}
