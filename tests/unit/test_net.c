/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The network device: what it moves, what it loses, and what it does not believe. */
#include "net_driver.h"

#include "base/fd.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define F(name) (1ull << VIRTIO_NET_F_##name)
#define ALL	(F(MRG_RXBUF) | F(CSUM) | F(HOST_TSO4) | F(GUEST_CSUM) | F(GUEST_TSO4))

static uint8_t packet[NET_PACKET_MAX + 16], got[NET_PACKET_MAX + 16];

static int setup(void **state)
{
	struct net_driver *driver = xcalloc(1, sizeof(*driver));

	net_driver_init(driver, ALL);
	*state = driver;
	return 0;
}

static int teardown(void **state)
{
	net_driver_free(*state);
	free(*state);
	return 0;
}

/* A packet of size bytes, its header included, that differs from others by `salt`. */
static void make_packet(uint32_t size, uint8_t salt)
{
	for (uint32_t i = 0; i < size; i++)
		packet[i] = (uint8_t)(i * 7 + salt);
	memset(packet, 0, NET_HEADER);
}

/* One comes over the wire. */
static void arrive(struct net_driver *driver, uint32_t size, uint8_t salt)
{
	make_packet(size, salt);
	assert_int_equal(send(driver->wire, packet, size, 0), size);
}

static void expect(struct net_driver *driver, uint32_t size, uint8_t salt, unsigned int buffers)
{
	unsigned int count = 0;

	make_packet(size, salt);
	((struct virtio_net_hdr_v1 *)packet)->num_buffers = htole16((uint16_t)buffers);
	assert_int_equal(net_driver_receive(driver, got, sizeof(got), &count), size);
	assert_int_equal(count, buffers);
	assert_memory_equal(got, packet, size);
}

static void expect_nothing(struct net_driver *driver)
{
	assert_int_equal(net_driver_receive(driver, got, sizeof(got), NULL), 0);
	assert_false(driver->broken);
}

static void test_offloads(void **state)
{
	struct net_driver *driver = *state;

	assert_int_equal(net_offloads, TUN_F_CSUM | TUN_F_TSO4);
	net_driver_reset(driver);
	net_driver_activate(driver, 0);
	assert_int_equal(net_offloads, 0);
	net_driver_reset(driver);
	net_driver_activate(driver, F(GUEST_CSUM) | F(GUEST_TSO6) | F(GUEST_ECN));
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

static void test_receive(void **state)
{
	struct net_driver *driver = *state;

	net_driver_post(driver, 2048);
	net_driver_post(driver, 2048);
	arrive(driver, 100, 1);
	net_driver_poll(driver);
	assert_int_equal(driver->interrupts, 1);
	expect(driver, 100, 1, 1);
	arrive(driver, 2048, 2);
	net_driver_poll(driver);
	expect(driver, 2048, 2, 1);
	expect_nothing(driver);
}

/* The buffers are enough for the largest packet, so it is read where it belongs. */
static void test_receive_over_many_buffers(void **state)
{
	struct net_driver *driver = *state;

	for (int i = 0; i < 60; i++)
		net_driver_post(driver, 1536);
	arrive(driver, 65000, 3);
	arrive(driver, 60, 4);
	net_driver_poll(driver);
	expect(driver, 65000, 3, 43);
	expect(driver, 60, 4, 1);
	for (int i = 0; i < 44; i++)
		net_driver_post(driver, 1536);
	arrive(driver, NET_PACKET_MAX, 5);
	net_driver_poll(driver);
	expect(driver, NET_PACKET_MAX, 5, 43);
	expect_nothing(driver);
}

/* CVE-2020-16843: starved of buffers, then fed, traffic recovers, and nothing is lost or mixed. */
static void test_receive_starved(void **state)
{
	struct net_driver *driver = *state;

	for (uint8_t i = 0; i < 5; i++)
		arrive(driver, 200, i);
	arrive(driver, 5000, 9);
	arrive(driver, 300, 10);
	net_driver_poll(driver);
	expect_nothing(driver);
	for (uint8_t i = 0; i < 5; i++) {
		net_driver_post(driver, 1536);
		expect(driver, 200, i, 1);
		expect_nothing(driver);
	}
	for (int i = 0; i < 3; i++) {
		net_driver_post(driver, 1536);
		expect_nothing(driver); /* 5,000 bytes need four */
	}
	net_driver_post(driver, 1536);
	expect(driver, 5000, 9, 4);
	net_driver_post(driver, 1536);
	expect(driver, 300, 10, 1);
	/* And by itself afterwards. */
	net_driver_post(driver, 1536);
	arrive(driver, 400, 11);
	net_driver_poll(driver);
	expect(driver, 400, 11, 1);
	expect_nothing(driver);
}

static void test_receive_what_never_fits(void **state)
{
	struct net_driver *driver = *state;

	for (unsigned int i = 0; i < NET_QUEUE_SIZE; i++)
		net_driver_post(driver, 16);
	arrive(driver, 16 * NET_QUEUE_SIZE + 1, 1);
	arrive(driver, 16 * NET_QUEUE_SIZE, 2);
	net_driver_poll(driver);
	expect(driver, 16 * NET_QUEUE_SIZE, 2, NET_QUEUE_SIZE);
	expect_nothing(driver);
}

static void test_receive_into_one_buffer(void **state)
{
	struct net_driver *driver = *state;

	net_driver_reset(driver);
	net_driver_activate(driver, 0);
	net_driver_post(driver, 1526);
	net_driver_post(driver, 1526);
	arrive(driver, 1527, 1);
	arrive(driver, 1526, 2);
	arrive(driver, 60, 3);
	net_driver_poll(driver);
	expect(driver, 1526, 2, 1);
	expect(driver, 60, 3, 1);
	expect_nothing(driver);
}

static void test_receive_broken_buffer(void **state)
{
	struct net_driver *driver = *state;

	arrive(driver, 60, 1);
	net_driver_poll(driver);
	net_driver_post(driver, (uint32_t)NET_HEADER - 1);
	assert_true(driver->broken);
	assert_non_null(strstr(driver->broken_by.text, "11 bytes"));
}

/* The sizes of two buffers come to more than 32 bits. */
static void test_receive_into_4_gib(void **state)
{
	struct net_driver *driver = *state;
	const struct net_buffers *buffers = driver->net.pairs[0].buffers;

	net_driver_post(driver, 100);
	net_driver_post_huge(driver);
	arrive(driver, 150, 1);
	net_driver_poll(driver);
	assert_false(driver->broken);
	assert_int_equal(driver->net.device.queues[NET_RECEIVE].state.next_used, 2);
	assert_int_equal(buffers->first, 2);
	assert_int_equal(buffers->count, 0);
}

static void test_receive_many(void **state)
{
	struct net_driver *driver = *state;

	for (unsigned int i = 0; i < 3 * NET_QUEUE_SIZE; i++) {
		net_driver_post(driver, 1536);
		if (i % 3 == 2)
			for (uint8_t j = 0; j < 3; j++)
				arrive(driver, 100u + j, j);
		net_driver_poll(driver);
		for (uint8_t j = 0; j < 3 && i % 3 == 2; j++)
			expect(driver, 100u + j, j, 1);
	}
	expect_nothing(driver);
}

/* Packets of all sizes, a driver that kicks only when asked to: none is lost, changed or stuck. */
static void test_receive_at_random(void **state)
{
	struct net_driver *driver = *state;
	uint32_t sizes[16];
	unsigned int sent = 0, received = 0;

	net_driver_reset(driver);
	driver->event_idx = true;
	net_driver_activate(driver, ALL);
	srandom(7);
	while (received < 20000) {
		uint32_t size = 60 + (uint32_t)random() % (random() % 4 ? 1500 : 65000);
		unsigned int posts = (unsigned int)random() % 40;

		if (sent - received < ARRAY_LEN(sizes) && random() % 3) {
			sizes[sent % ARRAY_LEN(sizes)] = size;
			arrive(driver, size, (uint8_t)sent);
			sent++;
		}
		if (random() % 2)
			net_driver_poll(driver);
		for (unsigned int i = 0; i < posts; i++)
			net_driver_post(driver, 1536);
		if (random() % 2)
			net_driver_poll(driver);
		while (received < sent) {
			uint32_t wanted = sizes[received % ARRAY_LEN(sizes)];

			if (net_driver_receive(driver, got, sizeof(got), NULL) == 0)
				break;
			make_packet(wanted, (uint8_t)received);
			assert_memory_equal(got + NET_HEADER, packet + NET_HEADER,
					    wanted - NET_HEADER);
			received++;
		}
		assert_false(driver->broken);
		/* With all buffers given, whatever has arrived is there. */
		while (received == sent && driver->net.pairs[0].waiting)
			fail();
	}
	for (unsigned int i = 0; i < NET_QUEUE_SIZE; i++)
		net_driver_post(driver, 1536);
	net_driver_poll(driver);
	while (net_driver_receive(driver, got, sizeof(got), NULL))
		received++;
	assert_int_equal(received, sent);
}

static void test_reset_with_a_packet_waiting(void **state)
{
	struct net_driver *driver = *state;

	net_driver_post(driver, 1536);
	arrive(driver, 5000, 1);
	net_driver_poll(driver);
	expect_nothing(driver);
	assert_int_equal(driver->net.pairs[0].buffers->count, 1);
	net_driver_reset(driver);
	assert_int_equal(driver->net.pairs[0].buffers->count, 0);
	net_driver_activate(driver, ALL);
	for (int i = 0; i < 4; i++)
		net_driver_post(driver, 1536);
	arrive(driver, 70, 2);
	net_driver_poll(driver);
	expect(driver, 70, 2, 1);
	expect_nothing(driver);
}

/* Sends one, whose header is the caller's. Returns what came over the wire, 0 for nothing. */
static ssize_t transmit(struct net_driver *driver, const struct virtio_net_hdr_v1 *header,
			uint32_t size, uint32_t split)
{
	uint16_t before = net_driver_sent(driver);
	ssize_t n;

	make_packet(size, 3);
	memcpy(packet, header, sizeof(*header));
	net_driver_send(driver, packet, size, split);
	assert_false(driver->broken);
	assert_int_equal((uint16_t)(net_driver_sent(driver) - before), 1);
	n = recv(driver->wire, got, sizeof(got), 0);
	if (n <= 0)
		return 0;
	assert_memory_equal(got + NET_HEADER, packet + NET_HEADER, (size_t)n - NET_HEADER);
	return n;
}

static void test_send(void **state)
{
	static const struct virtio_net_hdr_v1 plain;
	struct net_driver *driver = *state;

	assert_int_equal(transmit(driver, &plain, 72, 0), 72);
	assert_int_equal(transmit(driver, &plain, 1500, NET_HEADER), 1500);
	assert_int_equal(transmit(driver, &plain, 1500, 5), 1500);
	assert_int_equal(transmit(driver, &plain, NET_PACKET_MAX, 700), NET_PACKET_MAX);
	assert_int_equal(driver->interrupts, 4);
	/* Too short to be a frame, too long to be one. */
	assert_int_equal(transmit(driver, &plain, NET_HEADER + 13, 0), 0);
	assert_int_equal(transmit(driver, &plain, 5, 0), 0);
	assert_int_equal(transmit(driver, &plain, NET_PACKET_MAX + 1, 0), 0);
	assert_int_equal(transmit(driver, &plain, 72, 0), 72);
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

	assert_int_equal(transmit(driver, &segments, 30000, NET_HEADER), 30000);
	assert_memory_equal(got, &segments, sizeof(segments));
	net_driver_reset(driver);
	net_driver_activate(driver, F(CSUM));
	assert_int_equal(transmit(driver, &segments, 30000, NET_HEADER), 0);
}

/* The host's kernel gets no header that it could stumble over. */
static void test_send_bad_headers(void **state)
{
	struct net_driver *driver = *state;
	struct virtio_net_hdr_v1 header = segments;

	header.flags = 0xff;
	header.num_buffers = 0xffff;
	header.hdr_len = 0xffff;
	assert_int_equal(transmit(driver, &header, 3000, 0), 3000);
	memcpy(&header, got, sizeof(header));
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
		assert_int_equal(transmit(driver, &header, 3000, 0), 0);
	}
	header = segments;
	header.csum_start = 3000 - NET_HEADER - 18;
	assert_int_equal(transmit(driver, &header, 3000, 0), 3000);
}

static void test_tap_is_gone(void **state)
{
	static const struct virtio_net_hdr_v1 plain;
	struct net_driver *driver = *state;

	net_driver_post(driver, 1536);
	shutdown(driver->wire, SHUT_RDWR);
	assert_true(net_driver_poll(driver) < 10);
	assert_int_equal(transmit(driver, &plain, 72, 0), 0);
	assert_true(net_driver_poll(driver) < 10);
	expect_nothing(driver);
}

#define SEVERAL (ALL | F(CTRL_VQ) | F(MQ))

static int setup_pairs(void **state)
{
	struct net_driver *driver = xcalloc(1, sizeof(*driver));

	net_driver_init_pairs(driver, SEVERAL, NET_DRIVER_PAIRS);
	*state = driver;
	return 0;
}

static int use(struct net_driver *driver, uint16_t pairs)
{
	uint8_t command[] = { VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, (uint8_t)pairs,
			      (uint8_t)(pairs >> 8) };

	return net_driver_command(driver, command, sizeof(command), 1);
}

static void check_attached(const struct net_driver *driver, bool second, bool third)
{
	assert_int_equal(driver->attached[1], second);
	assert_int_equal(driver->attached[2], third);
	assert_int_equal(driver->net.pairs[1].tap.added, second);
	assert_int_equal(driver->net.pairs[2].tap.added, third);
	assert_false(driver->broken);
}

/* How many pairs there are in use is the driver's word, within what there is. */
static void test_pairs(void **state)
{
	struct net_driver *driver = *state;
	const struct virtio_net_config *config = (void *)driver->net.device.config;

	assert_int_equal(driver->net.device.queue_count, 2 * NET_DRIVER_PAIRS + 1);
	assert_int_equal(le16toh(config->max_virtqueue_pairs), NET_DRIVER_PAIRS);
	assert_int_equal(driver->net.device.offered, F(CTRL_VQ) | F(MQ));
	check_attached(driver, false, false);
	assert_int_equal(use(driver, 2), VIRTIO_NET_OK);
	check_attached(driver, true, false);
	assert_int_equal(use(driver, 3), VIRTIO_NET_OK);
	check_attached(driver, true, true);
	assert_int_equal(use(driver, 1), VIRTIO_NET_OK);
	check_attached(driver, false, false);
	assert_int_equal(use(driver, 3), VIRTIO_NET_OK);
	net_driver_reset(driver);
	check_attached(driver, false, false);
	net_driver_activate(driver, SEVERAL);
	assert_int_equal(use(driver, 1), VIRTIO_NET_OK);
	check_attached(driver, false, false);
}

static void test_commands_that_are_wrong(void **state)
{
	static const uint8_t set = VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET;
	static const struct {
		uint8_t bytes[4];
		uint32_t size;
	} wrong[] = {
		{ { VIRTIO_NET_CTRL_MQ, set, 0, 0 }, 4 },
		{ { VIRTIO_NET_CTRL_MQ, set, NET_DRIVER_PAIRS + 1, 0 }, 4 },
		{ { VIRTIO_NET_CTRL_MQ, set, 2, 1 }, 4 },
		{ { VIRTIO_NET_CTRL_MQ, set, 0, 0x80 }, 4 },
		{ { VIRTIO_NET_CTRL_MQ, set, 2 }, 3 },
		{ { VIRTIO_NET_CTRL_MQ, set }, 2 },
		{ { VIRTIO_NET_CTRL_MQ }, 1 },
		{ { VIRTIO_NET_CTRL_MQ, set + 1, 2 }, 4 },
		{ { VIRTIO_NET_CTRL_RX, 0, 1 }, 4 },
		{ { 0xff, 0xff, 2 }, 4 },
	};
	uint8_t right[] = { VIRTIO_NET_CTRL_MQ, set, 2, 0 };
	struct net_driver *driver = *state;

	assert_int_equal(use(driver, 2), VIRTIO_NET_OK);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(net_driver_command(driver, wrong[i].bytes, wrong[i].size, 1),
				 VIRTIO_NET_ERR);
		check_attached(driver, true, false);
	}
	/* No room for the answer: it is done, or not, in silence. */
	assert_int_equal(net_driver_command(driver, right, sizeof(right), 0), -1);
	check_attached(driver, true, false);
	/* A driver that has not said that it knows of pairs has one, whatever it asks for. */
	net_driver_reset(driver);
	net_driver_activate(driver, ALL | F(CTRL_VQ));
	assert_int_equal(net_control_queue(&driver->net), NET_PAIR);
	net_driver_kick(driver, 2 * NET_DRIVER_PAIRS);
	check_attached(driver, false, false);
	net_driver_reset(driver);
	net_driver_activate(driver, ALL);
	assert_int_equal(net_control_queue(&driver->net), -1);
	net_driver_kick(driver, 2 * NET_DRIVER_PAIRS);
	assert_false(driver->broken);
}

/* What comes to a queue of the tap goes to that pair; what it does not take stays there. */
static void test_pairs_are_apart(void **state)
{
	struct net_driver *driver = *state;
	struct net_pair *second = &driver->net.pairs[1];

	assert_int_equal(send(driver->wires[1], "x", 1, 0), 1);
	net_driver_poll(driver);
	assert_false(second->readable); /* it takes no part yet */
	assert_int_equal(use(driver, 2), VIRTIO_NET_OK);
	net_driver_poll(driver);
	assert_true(second->readable); /* and now is heard, but its driver has given no buffer */
	net_driver_post(driver, 1536);
	arrive(driver, 70, 2);
	net_driver_poll(driver);
	expect(driver, 70, 2, 1);
	expect_nothing(driver);
	assert_int_equal(use(driver, 1), VIRTIO_NET_OK);
	assert_false(second->readable);
	assert_false(driver->broken);
}

/* Fewer taps than there is room for: as many pairs, and of one nothing shows that it is not alone.
 */
static void test_fewer_taps(void **state)
{
	struct net_driver *driver = *state;
	struct net_device net;
	struct err err;
	int fd = dup(driver->wire);

	net_init(&net, &driver->loop, 4);
	assert_int_equal(net.device.queue_count, 9);
	assert_int_equal(net_attach(&net, &fd, 1, (const uint8_t *)"abcdef", &err), 0);
	assert_int_equal(fd, -1);
	assert_int_equal(net.device.queue_count, 2);
	assert_int_equal(net.device.offered, 0);
	assert_int_equal(net.device.config_size, 8);
	net_free(&net);
}

int main(void)
{
#define TEST_PAIRS(name) cmocka_unit_test_setup_teardown(test_##name, setup_pairs, teardown)
#define TEST(name)	 cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(offloads),
		TEST(placeholder),
		TEST(receive),
		TEST(receive_over_many_buffers),
		TEST(receive_starved),
		TEST(receive_what_never_fits),
		TEST(receive_into_one_buffer),
		TEST(receive_broken_buffer),
		TEST(receive_into_4_gib),
		TEST(receive_many),
		TEST(receive_at_random),
		TEST(reset_with_a_packet_waiting),
		TEST(send),
		TEST(send_segments),
		TEST(send_bad_headers),
		TEST(tap_is_gone),
		TEST_PAIRS(pairs),
		TEST_PAIRS(commands_that_are_wrong),
		TEST_PAIRS(pairs_are_apart),
		TEST_PAIRS(fewer_taps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
