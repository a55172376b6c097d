/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest without a kernel: its machine, as hostile_guest.c and hostile_random.c use it. */
#pragma once

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>

#define MEMORY_SIZE (32ull << 20) /* as test_hostile.c orders it */
#define DEVICES	    0xd0000000ull
#define DEVICES_MAX 8u
#define QUEUES_MAX  4u

static inline void out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline uint8_t in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
	return value;
}

static inline uint32_t get(unsigned int device, uint32_t offset)
{
	return *(volatile uint32_t *)(DEVICES + device * 0x1000 + offset);
}

static inline void put(unsigned int device, uint32_t offset, uint32_t value)
{
	*(volatile uint32_t *)(DEVICES + device * 0x1000 + offset) = value;
}

/* Where a queue's rings are, 64 KiB each: descriptors, available, used, buffers. */
static inline uint64_t area(unsigned int device, unsigned int queue)
{
	return 0x400000 + (device * QUEUES_MAX + queue) * 0x10000;
}

#define BUFFERS(device, queue) (area(device, queue) + 0x4000)
#define DESC(device, queue)    ((volatile struct vring_desc *)area(device, queue))
#define AVAIL(device, queue)   ((volatile struct vring_avail *)(area(device, queue) + 0x1000))
#define USED(device, queue)    ((volatile struct vring_used *)(area(device, queue) + 0x2000))

/* guest_start() - take a device up to DRIVER_OK, with all its queues and these features. */
void guest_start(unsigned int device, uint64_t features);
/* guest_offer() - make a descriptor available. */
void guest_offer(unsigned int device, unsigned int queue, uint16_t head);
void guest_print(const char *text);

/* guest_random() - do anything to all of the machine, for ever. */
void guest_random(uint64_t seed);
