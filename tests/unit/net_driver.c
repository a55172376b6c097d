/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The in-memory guest driver of net_driver.h. */
#include "net_driver.h"

#include "base/fd.h"

#include <endian.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_ring.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define MEMORY	    (256ull << 20)
#define RING(queue) (0x10000ull + 0x10000ull * (queue))
#define TX_BUFFERS  0x200000ull
#define TX_ROOM	    0x18000u /* one request; they are served before net_driver_send() returns */

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 7 };

unsigned int net_offloads, net_changes;

static struct net_driver *current;

int __wrap_ioctl(int fd, unsigned long request, ...);

static void take_part(int fd, int flags)
{
	for (unsigned int i = 0; i < current->net.pair_count; i++)
		if (current->net.pairs[i].tap.fd == fd)
			current->attached[i] = flags & IFF_ATTACH_QUEUE;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	net_changes++;
	if (request == TUNSETOFFLOAD)
		net_offloads = va_arg(arguments, unsigned int);
	else if (request == TUNSETQUEUE)
		take_part(fd, va_arg(arguments, struct ifreq *)->ifr_flags);
	va_end(arguments);
	errno = ENOTTY;
	return request == TUNSETOFFLOAD || request == TUNSETQUEUE ? 0 : -1;
}

static void on_signal(struct device *device)
{
	current->interrupts++;
}

static void on_appear(struct device *device)
{
	device->absent = false;
}

static void on_broken(struct device *device, const struct err *err)
{
	current->broken = true;
	current->broken_by = *err;
	device->active = false;
	for (unsigned int i = 0; i < device->queue_count; i++)
		virtqueue_deactivate(&device->queues[i]);
}

static void *at(struct net_driver *driver, uint64_t gpa)
{
	return driver->memory.slots[0].host + gpa;
}

/* Returns the tap's end. */
static int make_wire(int *wire)
{
	int pair[2], room = 1 << 20;

	if (fd_socketpair(SOCK_DGRAM | SOCK_NONBLOCK, pair) < 0)
		abort();
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	*wire = pair[0];
	return pair[1];
}

void net_driver_init_pairs(struct net_driver *driver, uint64_t features, unsigned int pairs)
{
	int fd, taps[NET_DRIVER_PAIRS];
	struct err err;

	*driver = (struct net_driver){ .transport = { on_signal, on_broken, on_appear } };
	current = driver;
	fd = guest_memory_create(MEMORY, &err);
	if (fd < 0 || guest_memory_map(&driver->memory, fd, MEMORY, &err) < 0 ||
	    loop_init(&driver->loop, &err) < 0)
		abort();
	close(fd);
	for (unsigned int i = 0; i < pairs; i++)
		taps[i] = make_wire(&driver->wires[i]);
	driver->wire = driver->wires[0];
	net_init(&driver->net, &driver->loop, pairs);
	driver->net.device.transport = &driver->transport;
	for (unsigned int i = 0; i < driver->net.device.queue_count; i++)
		driver->net.device.kick_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (net_attach(&driver->net, taps, pairs, mac, &err) < 0)
		abort();
	net_driver_activate(driver, features);
}

void net_driver_init(struct net_driver *driver, uint64_t features)
{
	net_driver_init_pairs(driver, features, 1);
}

void net_driver_free(struct net_driver *driver)
{
	net_free(&driver->net);
	for (unsigned int i = 0; i < driver->net.device.queue_count; i++)
		close(driver->net.device.kick_fds[i]);
	for (unsigned int i = 0; i < driver->net.pair_count; i++)
		close(driver->wires[i]);
	loop_close(&driver->loop);
	guest_memory_unmap(&driver->memory);
}

void net_driver_activate(struct net_driver *driver, uint64_t features)
{
	struct device *device = &driver->net.device;
	struct err err;

	memset(at(driver, RING(0)), 0, device->queue_count * 0x10000);
	for (unsigned int i = 0; i < driver->net.device.queue_count; i++) {
		struct virtqueue *queue = &device->queues[i];

		memset(queue, 0, sizeof(*queue));
		queue->state.size = NET_QUEUE_SIZE;
		queue->state.desc = RING(i);
		queue->state.avail = RING(i) + 0x4000;
		queue->state.used = RING(i) + 0x8000;
		if (virtqueue_activate(queue, &driver->memory,
				       (uint64_t)driver->event_idx << VIRTIO_RING_F_EVENT_IDX,
				       &err) < 0)
			abort();
	}
	driver->posted = driver->seen = 0;
	device->features = features;
	device->active = true;
	if (device->ops->activate(device, &err) < 0)
		on_broken(device, &err);
}

void net_driver_reset(struct net_driver *driver)
{
	struct device *device = &driver->net.device;

	device->active = false;
	for (unsigned int i = 0; i < driver->net.device.queue_count; i++)
		virtqueue_deactivate(&device->queues[i]);
	device->ops->reset(device);
}

void net_driver_kick(struct net_driver *driver, unsigned int queue)
{
	struct device *device = &driver->net.device;
	struct err err;

	if (device->active && device->ops->notify(device, queue, &err) < 0)
		on_broken(device, &err);
}

/* For the buffer added last. */
static bool wants_kick(struct net_driver *driver)
{
	const struct vring_avail *avail = at(driver, RING(NET_RECEIVE) + 0x4000);
	const struct vring_used *used = at(driver, RING(NET_RECEIVE) + 0x8000);
	uint16_t event = *(const uint16_t *)&used->ring[NET_QUEUE_SIZE];

	return vring_need_event(event, avail->idx, (uint16_t)(avail->idx - 1));
}

void net_driver_post(struct net_driver *driver, uint32_t size)
{
	struct vring_desc *desc = at(driver, RING(NET_RECEIVE));
	struct vring_avail *avail = at(driver, RING(NET_RECEIVE) + 0x4000);
	uint16_t slot = driver->posted % NET_QUEUE_SIZE;

	if ((uint16_t)(driver->posted - driver->seen) >= NET_QUEUE_SIZE)
		return; /* all are with the device, or wait to be received */
	driver->posted++;
	driver->lengths[slot] = size;
	desc[slot] = (struct vring_desc){ .addr = NET_BUFFERS + (uint64_t)slot * NET_BUFFER_ROOM,
					  .len = size,
					  .flags = VRING_DESC_F_WRITE };
	avail->ring[slot] = slot;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	if (!driver->event_idx || wants_kick(driver))
		net_driver_kick(driver, NET_RECEIVE);
}

void net_driver_post_huge(struct net_driver *driver)
{
	struct vring_desc *desc = at(driver, RING(NET_RECEIVE));
	struct vring_avail *avail = at(driver, RING(NET_RECEIVE) + 0x4000);
	uint16_t first = NET_QUEUE_SIZE - NET_HUGE_PARTS;

	for (uint16_t i = 0; i < NET_HUGE_PARTS; i++)
		desc[first + i] = (struct vring_desc){
			.addr = 0,
			.len = NET_HUGE_PART,
			.flags = VRING_DESC_F_WRITE |
				 (i + 1u < NET_HUGE_PARTS ? VRING_DESC_F_NEXT : 0),
			.next = (uint16_t)(first + i + 1),
		};
	avail->ring[driver->posted++ % NET_QUEUE_SIZE] = first;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	net_driver_kick(driver, NET_RECEIVE);
}

/* A used buffer: adds its bytes to the packet. Returns how many there were. */
static uint32_t take_buffer(struct net_driver *driver, uint8_t *packet, size_t room)
{
	struct vring_used *used = at(driver, RING(NET_RECEIVE) + 0x8000);
	struct vring_used_elem element = used->ring[driver->seen++ % NET_QUEUE_SIZE];

	if (element.id >= NET_QUEUE_SIZE || element.len > driver->lengths[element.id])
		abort(); /* the device wrote beyond what it was given */
	if (element.len > room)
		abort();
	memcpy(packet, at(driver, NET_BUFFERS + element.id * (uint64_t)NET_BUFFER_ROOM),
	       element.len);
	return element.len;
}

uint32_t net_driver_receive(struct net_driver *driver, void *packet, size_t room,
			    unsigned int *buffers)
{
	const struct virtio_net_hdr_v1 *header = packet;
	struct vring_used *used = at(driver, RING(NET_RECEIVE) + 0x8000);
	uint16_t ready = (uint16_t)(used->idx - driver->seen), count;
	uint32_t size;

	if (!ready)
		return 0;
	/* The first buffer may be smaller than the header: then they are all the packet's. */
	size = take_buffer(driver, packet, room);
	count = size >= sizeof(*header) ? le16toh(header->num_buffers) : ready;
	if (count > ready || !count)
		abort(); /* a packet in part */
	for (uint16_t i = 1; i < count; i++)
		size += take_buffer(driver, (uint8_t *)packet + size, room - size);
	if (buffers)
		*buffers = count;
	return size;
}

void net_driver_send(struct net_driver *driver, const void *bytes, uint32_t size, uint32_t split)
{
	struct vring_desc *desc = at(driver, RING(NET_TRANSMIT));
	struct vring_avail *avail = at(driver, RING(NET_TRANSMIT) + 0x4000);

	if (size > TX_ROOM)
		abort();
	memcpy(at(driver, TX_BUFFERS), bytes, size);
	desc[0] = (struct vring_desc){ .addr = TX_BUFFERS, .len = size };
	if (split > 0 && split < size) {
		desc[0].len = split;
		desc[0].flags = VRING_DESC_F_NEXT;
		desc[0].next = 1;
		desc[1] = (struct vring_desc){ .addr = TX_BUFFERS + split, .len = size - split };
	}
	avail->ring[avail->idx % NET_QUEUE_SIZE] = 0;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	net_driver_kick(driver, NET_TRANSMIT);
}

uint16_t net_driver_sent(struct net_driver *driver)
{
	return ((struct vring_used *)at(driver, RING(NET_TRANSMIT) + 0x8000))->idx;
}

int net_driver_command(struct net_driver *driver, const void *bytes, uint32_t size, uint32_t room)
{
	unsigned int queue = driver->net.device.queue_count - 1;
	struct vring_desc *desc = at(driver, RING(queue));
	struct vring_avail *avail = at(driver, RING(queue) + 0x4000);
	struct vring_used *used = at(driver, RING(queue) + 0x8000);
	uint8_t *answer = at(driver, TX_BUFFERS + TX_ROOM);
	uint16_t slot = used->idx % NET_QUEUE_SIZE;

	memcpy(at(driver, TX_BUFFERS), bytes, size);
	desc[0] = (struct vring_desc){
		.addr = TX_BUFFERS, .len = size, .flags = room ? VRING_DESC_F_NEXT : 0, .next = 1
	};
	desc[1] = (struct vring_desc){ .addr = TX_BUFFERS + TX_ROOM,
				       .len = room,
				       .flags = VRING_DESC_F_WRITE };
	avail->ring[avail->idx % NET_QUEUE_SIZE] = 0;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	net_driver_kick(driver, queue);
	if (!used->ring[slot].len)
		return -1;
	return *answer;
}

/* The transport's part: a kick of the device's own. */
static bool serve_kicks(struct net_driver *driver)
{
	bool any = false;
	eventfd_t count;

	for (unsigned int i = 0; i < driver->net.device.queue_count; i++) {
		if (eventfd_read(driver->net.device.kick_fds[i], &count) < 0)
			continue;
		net_driver_kick(driver, i);
		any = true;
	}
	return any;
}

unsigned int net_driver_poll(struct net_driver *driver)
{
	unsigned int events = 0;
	struct epoll_event event;
	struct err err;

	while (events < 10000) {
		if (epoll_wait(driver->loop.epoll_fd, &event, 1, 0) > 0) {
			struct source *source = event.data.ptr;

			source->ready(source, event.events, &err);
		} else if (!serve_kicks(driver)) {
			break;
		}
		events++;
	}
	return events;
}
