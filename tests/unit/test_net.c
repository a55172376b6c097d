/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The network device as a whole, and what the guest sends: what goes out, what is not believed. */
#include "net_traffic.h"

#include <linux/if_tun.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void test_offloads(void **state)
{
	struct net_driver *driver = *state;

	assert_int_equal(net_offloads, TUN_F_CSUM | TUN_F_TSO4);
	net_driver_reset(driver);
	net_driver_activate(driver, 0);
	assert_int_equal(net_offloads, 0);
	net_driver_reset(driver);
	net_driver_activate(driver, NET_F(GUEST_CSUM) | NET_F(GUEST_TSO6) | NET_F(GUEST_ECN));
	assert_int_equal(net_offloads, TUN_F_CSUM | TUN_F_TSO6 | TUN_F_TSO_ECN);
}

static void test_placeholder(void **state)
{
	struct net_driver *driver = *state;
	struct net_device net;
	struct err err;
	int fd = dup(driver->wire);

	net_init(&net, &driver->loop, 1);
	assert_true(net.device.absent);
	assert_int_equal(net_attach(&driver->net, &fd, 1, (const uint8_t *)"abcdef", &err), -1);
	assert_int_equal(err.code, EEXIST);
	assert_int_equal(close(fd), 0); /* it is still ours */
	assert_false(driver->net.device.absent);
	assert_int_equal(driver->net.device.config[5], 7);
}

static void test_send(void **state)
{
	static const struct virtio_net_hdr_v1 plain;
	struct net_driver *driver = *state;

	assert_int_equal(traffic_transmit(driver, &plain, 72, 0), 72);
	assert_int_equal(traffic_transmit(driver, &plain, 1500, NET_HEADER), 1500);
	assert_int_equal(traffic_transmit(driver, &plain, 1500, 5), 1500);
	assert_int_equal(traffic_transmit(driver, &plain, NET_PACKET_MAX, 700), NET_PACKET_MAX);
	assert_int_equal(driver->interrupts, 4);
	/* Too short to be a frame, too long to be one. */
	assert_int_equal(traffic_transmit(driver, &plain, NET_HEADER + 13, 0), 0);
	assert_int_equal(traffic_transmit(driver, &plain, 5, 0), 0);
	assert_int_equal(traffic_transmit(driver, &plain, NET_PACKET_MAX + 1, 0), 0);
	assert_int_equal(traffic_transmit(driver, &plain, 72, 0), 72);
}

static const struct virtio_net_hdr_v1 segments = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
						   .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
						   .hdr_len = 54,
						   .gso_size = 1448,
						   .csum_start = 34,
						   .csum_offset = 16 };

static void test_send_segments(void **state)
{
	struct net_driver *driver = *state;

	assert_int_equal(traffic_transmit(driver, &segments, 30000, NET_HEADER), 30000);
	assert_memory_equal(traffic_got, &segments, sizeof(segments));
	net_driver_reset(driver);
	net_driver_activate(driver, NET_F(CSUM));
	assert_int_equal(traffic_transmit(driver, &segments, 30000, NET_HEADER), 0);
}

/* The host's kernel gets no header that it could stumble over. */
static void test_send_bad_headers(void **state)
{
	struct net_driver *driver = *state;
	struct virtio_net_hdr_v1 header = segments;

	header.flags = 0xff;
	header.num_buffers = 0xffff;
	header.hdr_len = 0xffff;
	assert_int_equal(traffic_transmit(driver, &header, 3000, 0), 3000);
	memcpy(&header, traffic_got, sizeof(header));
	assert_int_equal(header.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	assert_int_equal(header.num_buffers, 0);
	assert_int_equal(header.hdr_len, 3000 - NET_HEADER);
	for (int i = 0; i < 8; i++) {
		header = segments;
		switch (i) {
		case 0:
			header.flags = 0; /* segments without checksums */
			break;
		case 1:
			header.gso_size = 0;
			break;
		case 2:
			header.gso_type = VIRTIO_NET_HDR_GSO_TCPV6; /* not negotiated */
			break;
		case 3:
			header.gso_type = VIRTIO_NET_HDR_GSO_UDP;
			break;
		case 4:
			header.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
			break;
		case 5:
			header.csum_start = 3000 - NET_HEADER - 17; /* its last byte is outside */
			break;
		case 6:
			header.csum_start = 0xffff;
			header.csum_offset = 0xffff;
			break;
		default:
			header.csum_start = 13;
		}
		assert_int_equal(traffic_transmit(driver, &header, 3000, 0), 0);
	}
	header = segments;
	header.csum_start = 3000 - NET_HEADER - 18;
	assert_int_equal(traffic_transmit(driver, &header, 3000, 0), 3000);
}

static void test_tap_is_gone(void **state)
{
	static const struct virtio_net_hdr_v1 plain;
	struct net_driver *driver = *state;

	net_driver_post(driver, 1536);
	shutdown(driver->wire, SHUT_RDWR);
	assert_true(net_driver_poll(driver) < 10);
	assert_int_equal(traffic_transmit(driver, &plain, 72, 0), 0);
	assert_true(net_driver_poll(driver) < 10);
	traffic_expect_nothing(driver);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, traffic_setup, traffic_teardown)
	const struct CMUnitTest tests[] = {
		TEST(offloads),	     TEST(placeholder),	     TEST(send),
		TEST(send_segments), TEST(send_bad_headers), TEST(tap_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
