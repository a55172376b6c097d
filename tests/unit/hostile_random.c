/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that does anything to every register, ring, buffer and port, for ever: mostly what comes
 * close to being right, since what is plainly wrong is refused at once. A seed says what, as far as
 * the guest goes; the devices' threads run as they like.
 */
#include "hostile_guest.h"

#include <linux/fuse.h>
#include <linux/virtio_net.h>
#include <linux/virtio_vsock.h>

static uint64_t any(void)
{
	uint64_t state = own()->random;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	own()->random = state;
	return state;
}

static uint32_t below(uint32_t limit)
{
	return (uint32_t)((any() >> 20) % limit);
}

/* Values at the edges more often than others. */
static uint64_t odd(void)
{
	switch (below(8)) {
	case 0:
		return below(4);
	case 1:
		return ~0ull - below(4);
	case 2:
		return 1ull << below(64);
	case 3:
		return (1ull << below(64)) - 1;
	case 4:
		return MEMORY_SIZE - below(70);
	case 5:
		return DEVICES + below(0x10000);
	default:
		return any() >> below(64);
	}
}

static uint64_t address(unsigned int device, unsigned int queue)
{
	if (below(200) == 0)
		return odd();
	/* Sometimes the rings themselves. */
	return below(8) ? BUFFERS(device, queue) + below(0x8000)
			: area(device, queue) + below(0x3000);
}

static uint32_t length(void)
{
	static const uint32_t usual[] = { 8, 1, 12, 16, 40, 44, 64, 80, 128, 1526, 4096, 65536 };

	return below(100) == 0 ? (uint32_t)odd() : usual[below(12)];
}

static void write_fuse(uint64_t at)
{
	struct fuse_in_header *header = (void *)at;

	header->len = below(6) ? 40 + below(200) : (uint32_t)odd();
	header->opcode = below(8) ? below(56) : (uint32_t)odd();
	header->unique = below(8);
	header->nodeid = below(4) ? below(6) : odd();
	header->uid = below(3);
	header->gid = below(3);
	for (unsigned int i = 0; i < 12; i++)
		((volatile uint32_t *)(at + 40))[i] = below(3) ? below(10) : (uint32_t)odd();
	/* Names of what is there, or could be made. */
	if (below(2)) {
		volatile char *name = (char *)(at + 40 + (below(2) ? 0 : below(64)));

		name[0] = "0fla."[below(5)];
		name[1] = below(2) ? '\0' : '.';
		name[2] = '\0';
	}
}

static void write_vsock(uint64_t at)
{
	struct virtio_vsock_hdr *header = (void *)at;

	header->src_cid = below(8) ? 3 : odd();
	header->dst_cid = below(8) ? 2 : odd();
	header->src_port = 1000 + below(4);
	header->dst_port = below(8) ? 1 + below(8) : (uint32_t)odd();
	header->len = below(4) ? below(200) : (uint32_t)odd();
	header->type = below(16) ? 1 : (uint16_t)odd();
	header->op = (uint16_t)(below(16) ? below(8) : odd());
	header->flags = below(4);
	header->buf_alloc = below(4) ? 65536 : (uint32_t)odd();
	header->fwd_cnt = below(4) ? below(65536) : (uint32_t)odd();
}

/* Which queue of a network card it is for depends on what was negotiated. */
static void write_net_control(uint64_t at)
{
	struct virtio_net_ctrl_hdr *header = (void *)at;

	header->class = (uint8_t)(below(8) ? VIRTIO_NET_CTRL_MQ : odd());
	header->cmd = (uint8_t)(below(8) ? VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET : odd());
	*(volatile uint16_t *)(at + sizeof(*header)) = (uint16_t)(below(4) ? below(4) : odd());
}

static void write_net(uint64_t at)
{
	struct virtio_net_hdr_v1 *header = (void *)at;

	header->flags = (uint8_t)below(5);
	header->gso_type = (uint8_t)(below(4) ? below(6) : odd());
	header->hdr_len = (uint16_t)odd();
	header->gso_size = (uint16_t)odd();
	header->csum_start = (uint16_t)(below(2) ? below(60) : odd());
	header->csum_offset = (uint16_t)(below(2) ? below(20) : odd());
	header->num_buffers = (uint16_t)odd();
}

static void fill_chain(unsigned int device, unsigned int queue, uint16_t head)
{
	unsigned int parts = 1 + below(5), readable = below(parts + 1);

	for (unsigned int i = 0; i < parts; i++) {
		volatile struct vring_desc *desc = &DESC(device, queue)[(head + i) % 256];

		desc->addr = address(device, queue);
		desc->len = length();
		desc->flags = (uint16_t)((i < readable ? 0 : VRING_DESC_F_WRITE) |
					 (i + 1 < parts ? VRING_DESC_F_NEXT : 0));
		desc->next = (uint16_t)((head + i + 1) % 256);
		if (below(300) == 0)
			desc->flags = (uint16_t)odd();
		if (below(300) == 0)
			desc->next = (uint16_t)odd();
	}
	if (below(6) == 0) { /* an indirect table, which is the ring's own part */
		volatile struct vring_desc *desc = &DESC(device, queue)[(head + parts) % 256];

		desc->addr = area(device, queue) + head * 16;
		desc->len = parts * 16;
		desc->flags = VRING_DESC_F_INDIRECT;
		head = (uint16_t)((head + parts) % 256);
	}
	guest_offer(device, queue, below(300) ? head : (uint16_t)odd());
}

static void fill_buffer(unsigned int device, unsigned int queue)
{
	uint64_t at = BUFFERS(device, queue) + below(64) * 128;

	switch (get(device, VIRTIO_MMIO_DEVICE_ID)) {
	case VIRTIO_ID_FS:
		write_fuse(at);
		break;
	case VIRTIO_ID_VSOCK:
		write_vsock(at);
		break;
	case VIRTIO_ID_NET:
		if (below(4))
			write_net(at);
		else
			write_net_control(at);
		break;
	default:
		*(volatile uint64_t *)at = odd();
		break;
	}
	/* A chain that begins just there. */
	if (below(2)) {
		uint16_t head = (uint16_t)below(240);
		volatile struct vring_desc *desc = &DESC(device, queue)[head];

		desc[0].addr = at;
		desc[0].len = below(3) ? 44 + below(100) : below(3) ? 4 : length();
		desc[0].flags = VRING_DESC_F_NEXT;
		desc[0].next = (uint16_t)(head + 1);
		desc[1].addr = BUFFERS(device, queue) + 0x4000;
		desc[1].len = below(3) ? 4096 : length();
		desc[1].flags = VRING_DESC_F_WRITE;
		guest_offer(device, queue, head);
	}
}

static void touch_register(unsigned int device)
{
	uint64_t at = DEVICES + device * 0x1000 + below(below(4) ? 0x140 : 0x1000);
	uint64_t value = odd();

	switch (below(8)) {
	case 0:
		(void)*(volatile uint8_t *)at;
		break;
	case 1:
		(void)*(volatile uint16_t *)at;
		break;
	case 2:
		(void)*(volatile uint64_t *)at;
		break;
	case 3:
		*(volatile uint8_t *)at = (uint8_t)value;
		break;
	case 4:
		*(volatile uint64_t *)at = value;
		break;
	case 5:
		(void)*(volatile uint32_t *)(at & ~3ull);
		break;
	default:
		*(volatile uint32_t *)(at & ~3ull) = (uint32_t)value;
		break;
	}
}

static void touch_port(void)
{
	uint16_t port = (uint16_t)(below(4) ? 0x3f8 + below(8) : odd());
	uint8_t value = (uint8_t)any();

	if (below(2))
		(void)in8(port);
	else if (port != 0x64 || value != 0xfe || below(1000) == 0)
		out8(port, value);
}

/* Some of what is offered; a set that is not is refused, and the device does not start. */
static uint64_t features(unsigned int device)
{
	if (below(8) == 0)
		return odd();
	put(device, VIRTIO_MMIO_DEVICE_FEATURES_SEL, 0);
	return get(device, VIRTIO_MMIO_DEVICE_FEATURES) & (below(2) ? UINT32_MAX : (uint32_t)any());
}

void guest_random(uint64_t seed)
{
	own()->random = seed * 0x9e3779b97f4a7c15ull + 1;
	for (;;) {
		unsigned int device = below(DEVICES_MAX), queue = below(below(4) ? 3 : QUEUES_MAX);

		switch (below(16)) {
		case 0:
			touch_register(device);
			break;
		case 1:
			touch_port();
			break;
		case 2:
			if (below(10) == 0)
				*(volatile uint16_t *)(area(device, queue) + below(0x2800)) =
					(uint16_t)odd();
			break;
		case 3:
			if (below(30) == 0)
				AVAIL(device, queue)->idx += (uint16_t)below(300);
			break;
		case 4:
		case 5:
			if (below(3) == 0)
				guest_start(device, features(device));
			break;
		case 6:
		case 7:
		case 8:
			put(device, VIRTIO_MMIO_QUEUE_NOTIFY, queue);
			break;
		case 9:
		case 10:
			fill_chain(device, queue, (uint16_t)below(256));
			break;
		default:
			fill_buffer(device, queue);
			break;
		}
	}
}
