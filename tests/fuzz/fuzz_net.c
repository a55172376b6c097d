/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes the network device: the input is a script of packets both ways with any header, receive
 * buffers of any size, kicks, commands, resets, and writes into the rings.
 */
#include "../unit/net_driver.h"

#include <linux/virtio_net.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define F(name) (1ull << VIRTIO_NET_F_##name)
#define RINGS	0x10000u

static const uint64_t features[] = {
	F(MRG_RXBUF) | F(CSUM) | F(HOST_TSO4) | F(HOST_TSO6) | F(HOST_ECN) | F(CTRL_VQ) | F(MQ),
	F(MRG_RXBUF),
	0,
	F(CSUM) | F(HOST_TSO4),
};

/* One step of the script; returns how many bytes of the input it used. */
static size_t step(struct net_driver *driver, const uint8_t *data, size_t size)
{
	static uint8_t packet[NET_PACKET_MAX + 16];
	uint32_t arg = size > 2 ? data[1] | (uint32_t)data[2] << 8 : 0;
	size_t header = size > 3 ? size - 3 : 0;

	if (header > NET_HEADER)
		header = NET_HEADER;
	switch (data[0] & 7) {
	case 0:
		memcpy(packet, data + 3, header);
		net_driver_send(driver, packet, arg + 1, data[0] >> 3);
		return 3 + header;
	case 1:
		(void)!send(driver->wires[data[0] >> 3 & 1], packet, arg + 1u, 0);
		return 3;
	case 2:
		net_driver_post(driver, arg % NET_BUFFER_ROOM + 1);
		return 3;
	case 3:
		if (data[0] & 8) { /* what the device has already, again */
			driver->seen = driver->posted;
			driver->broken = true;
		}
		for (int i = 0; i < 16; i++)
			net_driver_post(driver, data[0] & 16 ? (uint32_t)NET_HEADER : 1536);
		return 1;
	case 4:
		while (!driver->broken && net_driver_receive(driver, packet, sizeof(packet), NULL))
			;
		return 1;
	case 5: /* from here on what the driver finds in its rings means nothing */
		if (data[0] & 8)
			net_driver_post_huge(driver);
		else if (size > 3)
			driver->memory.slots[0].host[RINGS + arg] = data[3];
		driver->broken = true;
		return 4;
	case 6:
		if (data[0] & 8) {
			net_driver_command(driver, data + 1, size > 5 ? 4 : (uint32_t)size - 1,
					   data[0] >> 4 & 1);
			return 5;
		}
		net_driver_kick(driver, (data[0] >> 4) % driver->net.device.queue_count);
		return 1;
	default:
		net_driver_poll(driver);
		if (data[0] & 8) {
			net_driver_reset(driver);
			net_driver_activate(driver, features[data[0] >> 4 & 3]);
			driver->broken = false;
		}
		return 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct net_driver driver;

	net_driver_init_pairs(&driver, features[0], 2);
	while (size > 0) {
		size_t used = step(&driver, data, size);

		if (used > size)
			break;
		data += used;
		size -= used;
	}
	net_driver_poll(&driver);
	net_driver_free(&driver);
	return 0;
}
