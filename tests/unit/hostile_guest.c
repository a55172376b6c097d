/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile guests, chosen by `attack=` on the command line: each breaks a device's rules in its own
 * way, then has the entropy device serve an honest request and prints what came of it. They run
 * without a library, loaded as a kernel is.
 */
#include "hostile_guest.h"

#include <asm/bootparam.h>

/* Padding of the code is mapped from the file where pages of constants follow it (attack 10). */
const char guest_constants[3 * 4096] __attribute__((aligned(4096))) = "constants";
extern char guest_padding[], guest_padding_end[];

void guest_print(const char *text)
{
	while (*text)
		out8(0x3f8, (uint8_t)*text++);
}

void *memset(void *to, int value, unsigned long size)
{
	for (unsigned long i = 0; i < size; i++)
		((volatile char *)to)[i] = (char)value;
	return to;
}

void *memcpy(void *to, const void *from, unsigned long size)
{
	for (unsigned long i = 0; i < size; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

void guest_reset_machine(void)
{
	for (;;)
		out8(0x64, 0xfe);
}

unsigned int guest_find(uint32_t type)
{
	for (unsigned int i = 0; i < DEVICES_MAX; i++)
		if (get(i, VIRTIO_MMIO_DEVICE_ID) == type)
			return i;
	guest_print("a device is missing\n");
	guest_reset_machine();
	return 0;
}

static void put64(unsigned int device, uint32_t offset, uint64_t value)
{
	put(device, offset, (uint32_t)value);
	put(device, offset + 4, (uint32_t)(value >> 32));
}

static uint16_t sizes[DEVICES_MAX][QUEUES_MAX];

static void set_up_queue(unsigned int device, unsigned int queue)
{
	uint32_t size;

	put(device, VIRTIO_MMIO_QUEUE_SEL, queue);
	size = get(device, VIRTIO_MMIO_QUEUE_NUM_MAX);
	if (!size)
		return;
	sizes[device][queue] = (uint16_t)size;
	put(device, VIRTIO_MMIO_QUEUE_NUM, size);
	put64(device, VIRTIO_MMIO_QUEUE_DESC_LOW, area(device, queue));
	put64(device, VIRTIO_MMIO_QUEUE_AVAIL_LOW, area(device, queue) + 0x1000);
	put64(device, VIRTIO_MMIO_QUEUE_USED_LOW, area(device, queue) + 0x2000);
	put(device, VIRTIO_MMIO_QUEUE_READY, 1);
	AVAIL(device, queue)->idx = 0;
	USED(device, queue)->idx = 0;
}

void guest_start(unsigned int device, uint64_t features)
{
	features |= 1ull << VIRTIO_F_VERSION_1;
	put(device, VIRTIO_MMIO_STATUS, 0);
	put(device, VIRTIO_MMIO_STATUS, 1);
	put(device, VIRTIO_MMIO_STATUS, 3);
	for (uint32_t half = 0; half < 2; half++) {
		put(device, VIRTIO_MMIO_DRIVER_FEATURES_SEL, half);
		put(device, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> (32 * half)));
	}
	put(device, VIRTIO_MMIO_STATUS, 11);
	for (unsigned int queue = 0; queue < QUEUES_MAX; queue++)
		set_up_queue(device, queue);
	put(device, VIRTIO_MMIO_STATUS, 15);
}

void guest_offer(unsigned int device, unsigned int queue, uint16_t head)
{
	volatile struct vring_avail *avail = AVAIL(device, queue);

	avail->ring[avail->idx % (sizes[device][queue] ? sizes[device][queue] : 8)] = head;
	__asm__ volatile("" : : : "memory");
	avail->idx++;
}

void guest_describe(unsigned int device, unsigned int queue, unsigned int index,
		    struct vring_desc desc)
{
	volatile struct vring_desc *to = &DESC(device, queue)[index];

	to->addr = desc.addr;
	to->len = desc.len;
	to->flags = desc.flags;
	to->next = desc.next;
}

enum outcome guest_wait(unsigned int device, unsigned int queue, uint16_t used)
{
	for (uint32_t i = 0; i < 30000; i++) {
		for (uint32_t j = 0; j < 200; j++) {
			if (USED(device, queue)->idx == used)
				return SERVED;
			__asm__ volatile("pause");
		}
		if (get(device, VIRTIO_MMIO_STATUS) & VIRTIO_CONFIG_S_NEEDS_RESET)
			return REFUSED;
	}
	return NOTHING;
}

static bool ask_for_entropy(unsigned int device, uint16_t so_far)
{
	uint64_t buffer = BUFFERS(device, 0);

	*(volatile uint64_t *)buffer = 0;
	guest_describe(
		device, 0, 0,
		(struct vring_desc){ .addr = buffer, .len = 64, .flags = VRING_DESC_F_WRITE });
	guest_offer(device, 0, 0);
	put(device, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	return guest_wait(device, 0, (uint16_t)(so_far + 1)) == SERVED &&
	       USED(device, 0)->ring[so_far % 8].len == 64 && *(volatile uint64_t *)buffer != 0;
}

void guest_finish(const char *name, bool good)
{
	unsigned int rng = guest_find(VIRTIO_ID_RNG);

	guest_start(rng, 0);
	good = ask_for_entropy(rng, 0) && good;
	guest_print(name);
	guest_print(good ? ": ok\n" : ": BAD\n");
	guest_reset_machine();
}

/* 1: descriptors that are not in memory, wholly or in part. */
static void descriptors(void)
{
	static const struct vring_desc bad[] = {
		{ .addr = MEMORY_SIZE - 63, .len = 64 },
		{ .addr = MEMORY_SIZE, .len = 1 },
		{ .addr = 0xffffffffffffffc0, .len = 0x80 },
		{ .addr = 0xffffffffffffffff, .len = 1 },
		{ .addr = 0xfffffffffffff000, .len = 0xffffffff },
		{ .addr = DEVICES, .len = 64 },
		{ .addr = 0x400000, .len = 0xffffffff },
		{ .addr = 0x400000, .len = 0 },
	};
	unsigned int rng = guest_find(VIRTIO_ID_RNG);
	bool good = true;

	for (unsigned int device = 0; get(device, VIRTIO_MMIO_DEVICE_ID) < 64; device++) {
		for (unsigned int i = 0; i < 2 * COUNT(bad); i++) {
			struct vring_desc desc = bad[i % COUNT(bad)];

			desc.flags = i < COUNT(bad) ? VRING_DESC_F_WRITE : 0;
			guest_start(device, 0);
			for (unsigned int queue = 0; queue < QUEUES_MAX; queue++) {
				guest_describe(device, queue, 0, desc);
				guest_offer(device, queue, 0);
				put(device, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
			}
			/* Others may wait for something else to happen. */
			if (device == rng)
				good = guest_wait(rng, 0, 1) != NOTHING && good;
		}
	}
	guest_finish("descriptors", good);
}

/* 4: every register, while the device runs. */
static void registers(void)
{
	static const uint32_t values[] = { 0xffffffff, 0x80000000, 3, 256, 1, 0 };
	unsigned int rng = guest_find(VIRTIO_ID_RNG);
	bool good;

	guest_start(rng, 0);
	good = ask_for_entropy(rng, 0);
	for (unsigned int i = 0; i < COUNT(values); i++) {
		for (uint32_t offset = 0; offset < 0x100; offset += 4) {
			if (offset == VIRTIO_MMIO_STATUS && values[i] == 0)
				continue; /* that is a reset */
			put(rng, offset, values[i]);
			put(rng, VIRTIO_MMIO_QUEUE_SEL, 0);
		}
	}
	/* FAILED was set among the rest; the queue is served all the same. */
	good = ask_for_entropy(rng, 1) && good;
	good = (get(rng, VIRTIO_MMIO_STATUS) & 15) == 15 && good;
	/* They are memory to the guest, which is not to keep what it stores there. */
	for (uint32_t offset = 0; offset < 0x1000; offset += 8)
		*(volatile uint64_t *)(DEVICES + rng * 0x1000 + offset) = ~0ull;
	good = get(rng, VIRTIO_MMIO_MAGIC_VALUE) == 0x74726976 && good;
	good = get(rng, VIRTIO_MMIO_DEVICE_ID) == VIRTIO_ID_RNG && get(rng, 0xffc) == 0 && good;
	guest_finish("registers", good);
}

/* 6: resets while requests are under way. */
static void resets(void)
{
	for (unsigned int round = 0; round < 60; round++) {
		for (unsigned int device = 0; get(device, VIRTIO_MMIO_DEVICE_ID) < 64; device++) {
			guest_start(device, 0);
			for (unsigned int queue = 0; queue < QUEUES_MAX; queue++) {
				for (uint16_t i = 0; i < 8; i++) {
					guest_describe(
						device, queue, i,
						(struct vring_desc){
							.addr = BUFFERS(device, queue),
							.len = 0x4000,
							.flags = i % 2 ? VRING_DESC_F_WRITE : 0 });
					guest_offer(device, queue, i);
				}
				put(device, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
			}
			put(device, VIRTIO_MMIO_STATUS, 0);
			if (get(device, VIRTIO_MMIO_STATUS) != 0)
				guest_finish("resets", false);
		}
	}
	guest_finish("resets", true);
}

/* 8: offsets, lengths and numbers out of range. */
static void ranges(void)
{
	uint64_t sum = 0;

	for (unsigned int device = 0; device < DEVICES_MAX; device++) {
		uint64_t page = DEVICES + device * 0x1000;

		for (uint64_t at = 0x100; at < 0x1000; at += at < 0x180 || at > 0xff0 ? 1 : 97) {
			sum += *(volatile uint8_t *)(page + at);
			sum += *(volatile uint16_t *)(page + at);
			sum += *(volatile uint32_t *)(page + at);
			sum += *(volatile uint64_t *)(page + at);
			*(volatile uint64_t *)(page + at) = sum;
		}
		for (uint32_t number = 1; number; number *= 2) {
			put(device, VIRTIO_MMIO_QUEUE_SEL, number);
			sum += get(device, VIRTIO_MMIO_QUEUE_NUM_MAX);
			put(device, VIRTIO_MMIO_QUEUE_READY, 1);
			put(device, VIRTIO_MMIO_QUEUE_NUM, number);
			put(device, VIRTIO_MMIO_QUEUE_NOTIFY, number);
			put(device, VIRTIO_MMIO_DEVICE_FEATURES_SEL, number);
			sum += get(device, VIRTIO_MMIO_DEVICE_FEATURES);
			put(device, VIRTIO_MMIO_DRIVER_FEATURES_SEL, number);
			put(device, VIRTIO_MMIO_DRIVER_FEATURES, number);
		}
	}
	guest_finish("ranges", true);
}

/* 10: what the VMM maps from the kernel's file. */
static void constants(void)
{
	for (unsigned int i = 0; i < sizeof(guest_constants); i++)
		((volatile char *)(uintptr_t)guest_constants)[i] = 'X';
	for (volatile char *p = guest_padding; p < guest_padding_end; p++)
		*p = 'X';
	guest_finish("constants", true);
}

/* 11: rings that lead nowhere. */
static void rings(void)
{
	static const struct {
		struct vring_desc desc[2];
		uint16_t head, jump;
	} bad[] = {
		{ .head = 8 },
		{ .head = 0xffff },
		{ .head = 0, .jump = 9 },
		{ .head = 0, .jump = 0x8000 },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_NEXT, 0 } } },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_NEXT, 1 },
			    { 0x400000, 16, VRING_DESC_F_NEXT, 0 } } },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_NEXT, 0xffff } } },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_INDIRECT, 0 } } },
		{ .desc = { { 0x400000, 17, VRING_DESC_F_INDIRECT, 0 } } },
		{ .desc = { { 0x400000, 0, VRING_DESC_F_INDIRECT, 0 } } },
		{ .desc = { { 0x400000, 0xfffffff0, VRING_DESC_F_INDIRECT, 0 } } },
		{ .desc = { { MEMORY_SIZE - 8, 16, VRING_DESC_F_INDIRECT, 0 } } },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_INDIRECT | VRING_DESC_F_NEXT, 1 } } },
		{ .desc = { { 0x400000, 16, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1 },
			    { 0x400000, 16, 0, 0 } } },
	};
	unsigned int rng = guest_find(VIRTIO_ID_RNG);
	bool good = true;

	for (unsigned int i = 0; i < 2 * COUNT(bad); i++) {
		unsigned int which = i % COUNT(bad);

		guest_start(rng, i < COUNT(bad) ? 0 : 1ull << VIRTIO_RING_F_INDIRECT_DESC);
		for (unsigned int j = 0; j < 2; j++)
			guest_describe(rng, 0, j, bad[which].desc[j]);
		AVAIL(rng, 0)->ring[0] = bad[which].head;
		AVAIL(rng, 0)->idx = bad[which].jump ? bad[which].jump : 1;
		put(rng, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
		good = guest_wait(rng, 0, 1) != NOTHING && good;
	}
	/* Overlapping ones are odd, and allowed. */
	guest_start(rng, 0);
	guest_describe(rng, 0, 0, (struct vring_desc){ area(rng, 0), 64, VRING_DESC_F_WRITE, 0 });
	guest_offer(rng, 0, 0);
	put(rng, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	good = guest_wait(rng, 0, 1) != NOTHING && good;
	guest_finish("rings", good);
}

static const char *argument(const char *line, const char *name)
{
	for (; *line; line++) {
		unsigned int i = 0;

		while (name[i] && line[i] == name[i])
			i++;
		if (!name[i])
			return line + i;
	}
	return "0";
}

static uint64_t number(const char *text)
{
	uint64_t value = 0;

	while (*text >= '0' && *text <= '9')
		value = value * 10 + (uint64_t)(*text++ - '0');
	return value;
}

void guest_main(const struct boot_params *params);

void guest_main(const struct boot_params *params)
{
	const char *line = (const char *)(uintptr_t)params->hdr.cmd_line_ptr;
	uint64_t attack = number(argument(line, "attack="));

	/* Those that more than one vCPU takes part in. */
	if (attack == 0)
		guest_random(number(argument(line, "seed=")) * 16 + own()->number);
	if (attack >= 13 || own()->number)
		guest_race((unsigned int)attack, (unsigned int)number(argument(line, "vcpus=")));
	switch (attack) {
	case 1:
		descriptors();
		break;
	case 3:
		attack_starved();
		break;
	case 4:
		registers();
		break;
	case 5:
		attack_links(argument(line, "again=")[0] == '1');
		break;
	case 6:
		resets();
		break;
	case 7:
		attack_disk_header();
		break;
	case 8:
		ranges();
		break;
	case 9:
		attack_files();
		break;
	case 10:
		constants();
		break;
	case 11:
		rings();
		break;
	default:
		attack_sectors();
	}
	guest_reset_machine();
}
