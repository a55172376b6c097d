/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Races: the first vCPU drives each device in turn, and meanwhile the others change under its hands
 * what it and the device share. At the end all others stand still and the machine is to serve.
 */
#include "hostile_guest.h"

#define ROUNDS 10u
#define TURNS  1000u /* of the others, at least */
#define CHAINS 8u

static volatile uint32_t current; /* the device that is driven */
static volatile uint32_t over, turns, standing;

static uint32_t any(uint32_t limit)
{
	uint64_t state = own()->random;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	own()->random = state;
	return (uint32_t)((state >> 20) % limit);
}

/* Requests of two buffers, in all queues. */
static void drive(unsigned int device)
{
	for (unsigned int queue = 0; queue < QUEUES_MAX; queue++) {
		for (uint16_t i = 0; i < CHAINS; i += 2) {
			uint64_t at = BUFFERS(device, queue) + i * 0x800;

			guest_describe(device, queue, i,
				       (struct vring_desc){ at, 64, VRING_DESC_F_NEXT,
							    (uint16_t)(i + 1) });
			guest_describe(
				device, queue, i + 1u,
				(struct vring_desc){ at + 0x400, 0x400, VRING_DESC_F_WRITE, 0 });
			guest_offer(device, queue, i);
			put(device, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
		}
	}
}

/* 13: descriptors, indirect tables and both indices, while the device reads them. */
static void rewrite(unsigned int device)
{
	static const uint64_t addresses[] = { 0x400000, MEMORY_SIZE - 8, MEMORY_SIZE, DEVICES,
					      0xfffffffffffffff0 };
	static const uint32_t lengths[] = { 0, 16, 0x400, 0x10000, 0xffffffff };
	unsigned int queue = any(QUEUES_MAX), index = any(CHAINS);
	volatile struct vring_desc *desc = &DESC(device, queue)[index];

	switch (any(8)) {
	case 0:
		desc->addr = addresses[any(COUNT(addresses))];
		break;
	case 1:
		desc->len = lengths[any(COUNT(lengths))];
		break;
	case 2:
		desc->flags = (uint16_t)any(8);
		break;
	case 3:
		desc->next = (uint16_t)any(CHAINS + 1);
		break;
	case 4: /* a table of indirect ones, which is this table */
		desc->addr = area(device, queue);
		desc->len = 16 * CHAINS;
		desc->flags = VRING_DESC_F_INDIRECT;
		break;
	case 5:
		AVAIL(device, queue)->idx = (uint16_t)(AVAIL(device, queue)->idx + any(3));
		break;
	case 6:
		AVAIL(device, queue)->ring[index] = (uint16_t)any(CHAINS + 1);
		break;
	default:
		USED(device, queue)->idx = (uint16_t)any(0x10000);
		break;
	}
}

/* 14: resets, and starts, while requests are under way and while the other starts it. */
static void reset(unsigned int device)
{
	if (any(4))
		put(device, VIRTIO_MMIO_STATUS, 0);
	else
		guest_start(device, 0);
}

/* 15: registers: queues that are chosen, sized, placed, enabled and disabled by two at once. */
static void write_registers(unsigned int device)
{
	static const uint32_t registers[] = {
		VIRTIO_MMIO_QUEUE_SEL,	     VIRTIO_MMIO_QUEUE_NUM,
		VIRTIO_MMIO_QUEUE_READY,     VIRTIO_MMIO_QUEUE_DESC_LOW,
		VIRTIO_MMIO_QUEUE_DESC_HIGH, VIRTIO_MMIO_QUEUE_AVAIL_LOW,
		VIRTIO_MMIO_QUEUE_USED_HIGH, VIRTIO_MMIO_DRIVER_FEATURES,
		VIRTIO_MMIO_STATUS,	     VIRTIO_MMIO_QUEUE_NOTIFY,
		VIRTIO_MMIO_INTERRUPT_ACK,   VIRTIO_MMIO_QUEUE_USED_LOW,
		VIRTIO_MMIO_STATUS,	     VIRTIO_MMIO_DRIVER_FEATURES_SEL
	};
	static const uint32_t values[] = { 0, 1, 2, 3, 8, 11, 15, 256, 0x400000, 0xffffffff };

	put(device, registers[any(COUNT(registers))], values[any(COUNT(values))]);
	(void)get(device, registers[any(COUNT(registers))]);
}

static const struct {
	const char *name;
	void (*disturb)(unsigned int device);
} races[] = {
	{ "racing rings", rewrite },
	{ "racing resets", reset },
	{ "racing registers", write_registers },
};

static void __attribute__((noreturn)) disturb(unsigned int which)
{
	own()->random = own()->number + 1;
	while (!over) {
		races[which].disturb(current);
		__atomic_fetch_add(&turns, 1, __ATOMIC_SEQ_CST);
	}
	__atomic_fetch_add(&standing, 1, __ATOMIC_SEQ_CST);
	for (;;)
		__asm__ volatile("pause");
}

void guest_race(unsigned int which, unsigned int vcpus)
{
	which = (which - 13) % COUNT(races);
	if (own()->number)
		disturb(which);
	while (!turns) /* the others are there */
		__asm__ volatile("pause");
	/* More where the others do not get their share of the host's processors. */
	for (unsigned int round = 0; round < ROUNDS || turns < TURNS; round++) {
		for (unsigned int device = 0; get(device, VIRTIO_MMIO_DEVICE_ID) < 64; device++) {
			current = device;
			guest_start(device, round % 2 ? 1ull << VIRTIO_RING_F_INDIRECT_DESC : 0);
			for (unsigned int i = 0; i < 4; i++)
				drive(device);
		}
	}
	over = 1;
	while (standing < vcpus - 1)
		__asm__ volatile("pause");
	guest_finish(races[which].name, true);
}
