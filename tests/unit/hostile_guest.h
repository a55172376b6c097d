/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest without a kernel: its machine, as the files of its attacks use it. */
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
#define DEVICES_MAX 10u
#define QUEUES_MAX  6u /* a network card of two pairs has five */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What each vCPU has for itself, at the lower end of its stack (guest_entry.S). */
#define STACK_SIZE 16384ull

struct own {
	uint64_t number; /* 0: the first to come, which speaks for the machine */
	uint64_t random;
};

static inline struct own *own(void)
{
	uint64_t here;

	__asm__ volatile("movq %%rsp, %0" : "=r"(here));
	return (struct own *)(here & ~(STACK_SIZE - 1));
}

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

/* What compilers call where they please. */
void *memset(void *to, int value, unsigned long size);
void *memcpy(void *to, const void *from, unsigned long size);

enum outcome { SERVED, REFUSED, NOTHING };

/* guest_find() - the device of a type. Where there is none the machine is reset. */
unsigned int guest_find(uint32_t type);
/* guest_start() - take a device up to DRIVER_OK, with all its queues and these features. */
void guest_start(unsigned int device, uint64_t features);
void guest_describe(unsigned int device, unsigned int queue, unsigned int index,
		    struct vring_desc desc);
/* guest_offer() - make a descriptor available. */
void guest_offer(unsigned int device, unsigned int queue, uint16_t head);
/* guest_wait() - until the device has answered, broke off, or shows no sign of either for long. */
enum outcome guest_wait(unsigned int device, unsigned int queue, uint16_t used);
void guest_print(const char *text);
void guest_reset_machine(void);
/* guest_finish() - the end of each attack: the machine serves who keeps to the rules. */
void guest_finish(const char *name, bool good);

/* --- hostile_files.c, hostile_traffic.c: attacks -- */

void attack_files(void);
/* again: of a machine whose tree an earlier guest has prepared. */
void attack_links(bool again);
void attack_sectors(void);
void attack_disk_header(void);
void attack_starved(void);

/* --- hostile_race.c, hostile_random.c: called by each vCPU, and does not come back -- */

/* guest_race() - the first vCPU drives a device, the others get into its way. */
void guest_race(unsigned int which, unsigned int vcpus);
/* guest_random() - do anything to all of the machine, for ever. */
void guest_random(uint64_t seed);
