/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks with what a disk, a network and streams carry. */
#include "hostile_guest.h"

#include <linux/virtio_blk.h>
#include <linux/virtio_vsock.h>

/* A request to the disk about `size` bytes; returns its status, 0xff where it does not answer. */
static uint8_t ask_disk(unsigned int disk, uint32_t type, uint64_t sector, uint32_t size)
{
	uint64_t at = BUFFERS(disk, 0);
	struct virtio_blk_outhdr header = { .type = type, .sector = sector };
	uint16_t used = USED(disk, 0)->idx, to_guest = type == VIRTIO_BLK_T_IN;

	memcpy((void *)at, &header, sizeof(header));
	*(volatile uint8_t *)(at + 0x3000) = 0xff;
	guest_describe(disk, 0, 0, (struct vring_desc){ at, sizeof(header), VRING_DESC_F_NEXT, 1 });
	guest_describe(disk, 0, 1,
		       (struct vring_desc){ at + 0x1000, size,
					    VRING_DESC_F_NEXT | to_guest * VRING_DESC_F_WRITE, 2 });
	guest_describe(disk, 0, 2, (struct vring_desc){ at + 0x3000, 1, VRING_DESC_F_WRITE, 0 });
	guest_offer(disk, 0, 0);
	put(disk, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	if (guest_wait(disk, 0, (uint16_t)(used + 1)) != SERVED)
		return 0xff;
	return *(volatile uint8_t *)(at + 0x3000);
}

/* 12: sectors that are there, and others. The disk has a MiB (test_hostile.c). */
void attack_sectors(void)
{
	static const uint64_t none[] = { 2047, 2048, 1ull << 55, 0xffffffffffffffff };
	unsigned int disk = guest_find(VIRTIO_ID_BLOCK);
	volatile uint8_t *data = (volatile uint8_t *)(BUFFERS(disk, 0) + 0x1000);
	bool good = get(disk, VIRTIO_MMIO_CONFIG) == 2048;

	guest_start(disk, 1ull << VIRTIO_BLK_F_FLUSH);
	for (uint32_t i = 0; i < 1024; i++)
		data[i] = (uint8_t)(i * 7);
	good = ask_disk(disk, VIRTIO_BLK_T_OUT, 2046, 1024) == VIRTIO_BLK_S_OK && good;
	good = ask_disk(disk, VIRTIO_BLK_T_FLUSH, 0, 1) == VIRTIO_BLK_S_OK && good;
	good = ask_disk(disk, VIRTIO_BLK_T_IN, 0, 1024) == VIRTIO_BLK_S_OK && good;
	good = data[1000] == 0 && good;
	good = ask_disk(disk, VIRTIO_BLK_T_IN, 2046, 1024) == VIRTIO_BLK_S_OK && good;
	good = data[1000] == (uint8_t)(1000 * 7) && good;
	for (unsigned int i = 0; i < COUNT(none); i++) {
		good = ask_disk(disk, VIRTIO_BLK_T_IN, none[i], 1024) == VIRTIO_BLK_S_IOERR && good;
		good = ask_disk(disk, VIRTIO_BLK_T_OUT, none[i], 1024) == VIRTIO_BLK_S_IOERR &&
		       good;
	}
	good = ask_disk(disk, VIRTIO_BLK_T_IN, 0, 500) == VIRTIO_BLK_S_IOERR && good;
	good = ask_disk(disk, 99, 0, 512) == VIRTIO_BLK_S_UNSUPP && good;
	guest_finish("sectors", good);
}

/* 7: a header that says: a larger disk, in another format, whose rest is in a file of the host. */
void attack_disk_header(void)
{
	/* qcow2's: version 3, a name of 11 bytes at 104, clusters of 64 KiB, a TiB. */
	static const uint8_t qcow2[120] = {
		'Q', 'F', 'I', 0xfb, 0,	  0,   0,   3,	 0,	    0,	 0,   0,
		0,   0,	  0,   104,  0,	  0,   0,   11,	 0,	    0,	 0,   16,
		0,   0,	  1,   0,    0,	  0,   0,   0,	 [100] = 0, 0,	 0,   104,
		'/', 'e', 't', 'c',  '/', 'p', 'a', 's', 's',	    'w', 'd',
	};
	static const char *const others[] = { "KDMV\1", "vhdxfile", "conectix", "LUKS\xba\xbe",
					      "<<< Oracle VM VirtualBox Disk Image >>>" };
	unsigned int disk = guest_find(VIRTIO_ID_BLOCK);
	volatile uint8_t *data = (volatile uint8_t *)(BUFFERS(disk, 0) + 0x1000);
	bool good = true;

	for (unsigned int i = 0; i <= COUNT(others); i++) {
		const volatile uint8_t *header = i ? (const uint8_t *)others[i - 1] : qcow2;
		unsigned int size = i ? 5 : sizeof(qcow2);

		guest_start(disk, 1ull << VIRTIO_BLK_F_FLUSH);
		for (unsigned int j = 0; j < 512; j++)
			data[j] = j < size ? header[j] : 0x55;
		good = ask_disk(disk, VIRTIO_BLK_T_OUT, 0, 512) == VIRTIO_BLK_S_OK && good;
		good = ask_disk(disk, VIRTIO_BLK_T_FLUSH, 0, 1) == VIRTIO_BLK_S_OK && good;
		guest_start(disk, 1ull << VIRTIO_BLK_F_FLUSH);
		good = get(disk, VIRTIO_MMIO_CONFIG) == 2048 && good;
		for (unsigned int j = 0; j < 1024; j++)
			data[j] = 0;
		good = ask_disk(disk, VIRTIO_BLK_T_IN, 0, 1024) == VIRTIO_BLK_S_OK && good;
		for (unsigned int j = 0; j < size; j++)
			good = data[j] == header[j] && good;
		good = data[511] == 0x55 && data[512] == 0 && good;
		good = ask_disk(disk, VIRTIO_BLK_T_IN, 2047, 512) == VIRTIO_BLK_S_OK && good;
		good = ask_disk(disk, VIRTIO_BLK_T_IN, 2048, 512) == VIRTIO_BLK_S_IOERR && good;
	}
	guest_finish("disk header", good);
}

#define FED 8u /* buffers at a time */

static void idle(void)
{
	for (uint32_t i = 0; i < 1000000; i++)
		__asm__ volatile("pause");
}

/* Gives buffers to receive into, of 2 KiB, and waits until all are used: others send for ever. */
static bool feed(unsigned int device)
{
	uint16_t used = (uint16_t)(USED(device, 0)->idx + FED);

	for (unsigned int i = 0; i < FED; i++) {
		uint64_t at = BUFFERS(device, 0) + i * 0x800;

		*(volatile uint64_t *)at = ~0ull;
		guest_describe(device, 0, i,
			       (struct vring_desc){ at, 0x800, VRING_DESC_F_WRITE, 0 });
		guest_offer(device, 0, (uint16_t)i);
	}
	put(device, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	for (unsigned int i = 0; i < 100; i++) {
		enum outcome outcome = guest_wait(device, 0, used);

		if (outcome != NOTHING)
			return outcome == SERVED;
	}
	return false;
}

static bool starve_network(void)
{
	unsigned int net = 0;
	bool good = true;

	/* The monitor may not have given it its other end yet. */
	while (get(net, VIRTIO_MMIO_DEVICE_ID) != VIRTIO_ID_NET)
		net = (net + 1) % DEVICES_MAX;
	for (unsigned int round = 0; round < 4; round++) {
		guest_start(net, 0);
		for (uint16_t fed = 0; fed < 3; fed++) {
			idle();
			good = USED(net, 0)->idx == fed * FED && good;
			good = feed(net) && good;
			for (unsigned int i = 0; i < FED; i++)
				good = USED(net, 0)->ring[fed * FED + i].len >= 20 && good;
		}
	}
	return good;
}

static void send_packet(unsigned int vsock, uint16_t index, uint16_t op, uint32_t to)
{
	volatile struct virtio_vsock_hdr *packet = (void *)(BUFFERS(vsock, 1) + index * 64ull);

	*packet = (struct virtio_vsock_hdr){ .src_cid = 3,
					     .dst_cid = 2,
					     .src_port = 1000u + index,
					     .dst_port = to,
					     .type = VIRTIO_VSOCK_TYPE_STREAM,
					     .op = op,
					     .buf_alloc = 65536 };
	guest_describe(vsock, 1, index, (struct vring_desc){ (uint64_t)packet, 44, 0, 0 });
	guest_offer(vsock, 1, index);
}

static uint16_t op_of(unsigned int vsock, unsigned int buffer)
{
	return ((volatile struct virtio_vsock_hdr *)(BUFFERS(vsock, 0) + buffer * 0x800))->op;
}

/* Requests that must be answered, without a buffer for the answers; then a stream without end. */
static bool starve_streams(void)
{
	unsigned int vsock = guest_find(VIRTIO_ID_VSOCK),
		     zero = 3; /* its port, in test_hostile.c */
	bool good;

	guest_start(vsock, 0);
	for (uint16_t i = 0; i < 4 * FED; i++)
		send_packet(vsock, i, VIRTIO_VSOCK_OP_REQUEST, 4711);
	put(vsock, VIRTIO_MMIO_QUEUE_NOTIFY, 1);
	idle();
	good = USED(vsock, 0)->idx == 0;
	for (unsigned int round = 0; round < 4; round++) {
		good = feed(vsock) && good;
		for (unsigned int i = 0; i < FED; i++)
			good = op_of(vsock, i) == VIRTIO_VSOCK_OP_RST && good;
	}
	good = guest_wait(vsock, 1, 4 * FED) == SERVED && good;
	send_packet(vsock, 0, VIRTIO_VSOCK_OP_REQUEST, zero);
	put(vsock, VIRTIO_MMIO_QUEUE_NOTIFY, 1);
	idle();
	good = feed(vsock) && good;
	good = op_of(vsock, 0) == VIRTIO_VSOCK_OP_RESPONSE && good;
	idle();
	good = feed(vsock) && good;
	return op_of(vsock, 0) == VIRTIO_VSOCK_OP_RW && good;
}

/* 3: queues to receive with that have no buffers, while there is what they are for. */
void attack_starved(void)
{
	bool good = starve_network();

	guest_finish("starved", starve_streams() && good);
}
