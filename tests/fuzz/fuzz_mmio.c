/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver that does as the input says to a device's registers and to the memory where its rings
 * are: five bytes a step. The device is the one that DEVICE names, and QUEUE is its busiest.
 */
#include "base/mem.h"
#include "vmm/balloon.h"
#include "vmm/mmio.h"
#include "vmm/rng.h"

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <string.h>

#define MEMORY 0x10000u
#define STEP   5u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct mmio_device *mmio, uint32_t offset, uint32_t value)
{
	mmio_write(mmio, offset, &value, sizeof(value));
}

/* The way to a running device that steps by chance would take long to find. */
static void start(struct mmio_device *mmio)
{
	static const uint32_t writes[][2] = {
		{ VIRTIO_MMIO_STATUS, 0 },	     { VIRTIO_MMIO_STATUS, 1 },
		{ VIRTIO_MMIO_STATUS, 3 },	     { VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1 },
		{ VIRTIO_MMIO_DRIVER_FEATURES, 1 },  { VIRTIO_MMIO_STATUS, 11 },
		{ VIRTIO_MMIO_QUEUE_SEL, QUEUE },    { VIRTIO_MMIO_QUEUE_NUM, 2 },
		{ VIRTIO_MMIO_QUEUE_AVAIL_LOW, 32 }, { VIRTIO_MMIO_QUEUE_USED_LOW, 64 },
		{ VIRTIO_MMIO_QUEUE_READY, 1 },	     { VIRTIO_MMIO_STATUS, 15 },
	};

	for (size_t i = 0; i < ARRAY_LEN(writes); i++)
		put(mmio, writes[i][0], writes[i][1]);
}

static void step(struct mmio_device *mmio, uint8_t *memory, const uint8_t *data)
{
	uint32_t offset = (uint32_t)(data[1] | (data[2] & 0xf) << 8);
	uint32_t access = 1u << ((data[0] >> 3) & 3);
	uint8_t bytes[8] = { data[3], data[4] };
	struct err err;

	switch (data[0] & 7) {
	case 0:
		mmio_read(mmio, offset, bytes, access);
		break;
	case 1:
		mmio_write(mmio, offset, bytes, access);
		break;
	case 2:
		put(mmio, offset & 0xfc, data[3] | (uint32_t)data[4] << 8);
		break;
	case 3:
		start(mmio);
		break;
	case 4:
		mmio->kicks[QUEUE].source.ready(&mmio->kicks[QUEUE].source, 0, &err);
		break;
	default:
		memcpy(memory + (offset & 0xff), data + 3, 2);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *host;
	static struct loop loop;
	static uint32_t page[MMIO_SIZE / sizeof(uint32_t)];
	struct guest_memory memory = { .count = 1 };
	struct mmio_device mmio;
	struct device device;
	struct err err;

	if (!host && (!(host = malloc(MEMORY)) || loop_init(&loop, &err) < 0))
		return 0;
	memset(host, 0, 0x1000);
	memset(page, 0, sizeof(page));
	memory.slots[0] = (struct guest_slot){ .size = MEMORY, .host = host };
	DEVICE(&device);
	if (mmio_init(&mmio, &device, page, &memory, &loop, NULL, &err) < 0)
		return 0;
	mmio.warned = true;
	for (; size >= STEP; data += STEP, size -= STEP)
		step(&mmio, host, data);
	mmio_free(&mmio);
	return 0;
}
