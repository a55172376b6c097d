/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net_traffic.h"

#include "base/mem.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

uint8_t traffic_packet[NET_PACKET_MAX + 16], traffic_got[NET_PACKET_MAX + 16];

int traffic_setup(void **state)
{
	struct net_driver *driver = xcalloc(1, sizeof(*driver));

	net_driver_init(driver, NET_ALL);
	*state = driver;
	return 0;
}

int traffic_teardown(void **state)
{
	net_driver_free(*state);
	free(*state);
	return 0;
}

void traffic_make(uint32_t size, uint8_t salt)
{
	for (uint32_t i = 0; i < size; i++)
		traffic_packet[i] = (uint8_t)(i * 7 + salt);
	memset(traffic_packet, 0, NET_HEADER);
}

void traffic_arrive(struct net_driver *driver, uint32_t size, uint8_t salt)
{
	traffic_make(size, salt);
	assert_int_equal(send(driver->wire, traffic_packet, size, 0), size);
}

void traffic_expect(struct net_driver *driver, uint32_t size, uint8_t salt, unsigned int buffers)
{
	unsigned int count = 0;

	traffic_make(size, salt);
	((struct virtio_net_hdr_v1 *)traffic_packet)->num_buffers = htole16((uint16_t)buffers);
	assert_int_equal(net_driver_receive(driver, traffic_got, sizeof(traffic_got), &count),
			 size);
	assert_int_equal(count, buffers);
	assert_memory_equal(traffic_got, traffic_packet, size);
}

void traffic_expect_nothing(struct net_driver *driver)
{
	assert_int_equal(net_driver_receive(driver, traffic_got, sizeof(traffic_got), NULL), 0);
	assert_false(driver->broken);
}

ssize_t traffic_transmit(struct net_driver *driver, const struct virtio_net_hdr_v1 *header,
			 uint32_t size, uint32_t split)
{
	uint16_t before = net_driver_sent(driver);
	ssize_t n;

	traffic_make(size, 3);
	memcpy(traffic_packet, header, sizeof(*header));
	net_driver_send(driver, traffic_packet, size, split);
	assert_false(driver->broken);
	assert_int_equal((uint16_t)(net_driver_sent(driver) - before), 1);
	n = recv(driver->wire, traffic_got, sizeof(traffic_got), 0);
	if (n <= 0)
		return 0;
	assert_memory_equal(traffic_got + NET_HEADER, traffic_packet + NET_HEADER,
			    (size_t)n - NET_HEADER);
	return n;
}
