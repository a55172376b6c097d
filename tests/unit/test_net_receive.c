/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The network device, to the guest: what arrives, in which buffers, and what is lost. */
#include "net_traffic.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_receive(void **state)
{
	struct net_driver *driver = *state;

	net_driver_post(driver, 2048);
	net_driver_post(driver, 2048);
	traffic_arrive(driver, 100, 1);
	net_driver_poll(driver);
	assert_int_equal(driver->interrupts, 1);
	traffic_expect(driver, 100, 1, 1);
	traffic_arrive(driver, 2048, 2);
	net_driver_poll(driver);
	traffic_expect(driver, 2048, 2, 1);
	traffic_expect_nothing(driver);
}

/* The buffers are enough for the largest packet, so it is read where it belongs. */
static void test_receive_over_many_buffers(void **state)
{
	struct net_driver *driver = *state;

	for (int i = 0; i < 60; i++)
		net_driver_post(driver, 1536);
	traffic_arrive(driver, 65000, 3);
	traffic_arrive(driver, 60, 4);
	net_driver_poll(driver);
	traffic_expect(driver, 65000, 3, 43);
	traffic_expect(driver, 60, 4, 1);
	for (int i = 0; i < 44; i++)
		net_driver_post(driver, 1536);
	traffic_arrive(driver, NET_PACKET_MAX, 5);
	net_driver_poll(driver);
	traffic_expect(driver, NET_PACKET_MAX, 5, 43);
	traffic_expect_nothing(driver);
}

/* CVE-2020-16843: starved of buffers, then fed, traffic recovers, and nothing is lost or mixed. */
static void test_receive_starved(void **state)
{
	struct net_driver *driver = *state;

	for (uint8_t i = 0; i < 5; i++)
		traffic_arrive(driver, 200, i);
	traffic_arrive(driver, 5000, 9);
	traffic_arrive(driver, 300, 10);
	net_driver_poll(driver);
	traffic_expect_nothing(driver);
	for (uint8_t i = 0; i < 5; i++) {
		net_driver_post(driver, 1536);
		traffic_expect(driver, 200, i, 1);
		traffic_expect_nothing(driver);
	}
	for (int i = 0; i < 3; i++) {
		net_driver_post(driver, 1536);
		traffic_expect_nothing(driver); /* 5,000 bytes need four */
	}
	net_driver_post(driver, 1536);
	traffic_expect(driver, 5000, 9, 4);
	net_driver_post(driver, 1536);
	traffic_expect(driver, 300, 10, 1);
	/* And by itself afterwards. */
	net_driver_post(driver, 1536);
	traffic_arrive(driver, 400, 11);
	net_driver_poll(driver);
	traffic_expect(driver, 400, 11, 1);
	traffic_expect_nothing(driver);
}

static void test_receive_what_never_fits(void **state)
{
	struct net_driver *driver = *state;

	for (unsigned int i = 0; i < NET_QUEUE_SIZE; i++)
		net_driver_post(driver, 16);
	traffic_arrive(driver, 16 * NET_QUEUE_SIZE + 1, 1);
	traffic_arrive(driver, 16 * NET_QUEUE_SIZE, 2);
	net_driver_poll(driver);
	traffic_expect(driver, 16 * NET_QUEUE_SIZE, 2, NET_QUEUE_SIZE);
	traffic_expect_nothing(driver);
}

static void test_receive_into_one_buffer(void **state)
{
	struct net_driver *driver = *state;

	net_driver_reset(driver);
	net_driver_activate(driver, 0);
	net_driver_post(driver, 1526);
	net_driver_post(driver, 1526);
	traffic_arrive(driver, 1527, 1);
	traffic_arrive(driver, 1526, 2);
	traffic_arrive(driver, 60, 3);
	net_driver_poll(driver);
	traffic_expect(driver, 1526, 2, 1);
	traffic_expect(driver, 60, 3, 1);
	traffic_expect_nothing(driver);
}

static void test_receive_broken_buffer(void **state)
{
	struct net_driver *driver = *state;

	traffic_arrive(driver, 60, 1);
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
	traffic_arrive(driver, 150, 1);
	net_driver_poll(driver);
	assert_false(driver->broken);
	assert_int_equal(driver->net.device.queues[NET_RECEIVE].state.next_used, 2);
	assert_int_equal(buffers->first, 2);
	assert_int_equal(buffers->count, 0);
}

/* A driver that moves its index on though nothing came back: what is held has a bound. */
static void test_receive_into_more_than_there_are(void **state)
{
	struct net_driver *driver = *state;
	const struct net_buffers *buffers = driver->net.pairs[0].buffers;

	for (unsigned int i = 0; i < 3 * VIRTQUEUE_SIZE_MAX && !driver->broken; i++) {
		driver->seen = driver->posted; /* as if all had come back */
		if (!driver->net.pairs[0].waiting)
			traffic_arrive(driver, 60000, 1);
		net_driver_poll(driver);
		net_driver_post(driver, (uint32_t)NET_HEADER);
		assert_in_range(buffers->count, 0, NET_QUEUE_SIZE);
		assert_in_range(buffers->first + buffers->count, 0, VIRTQUEUE_SIZE_MAX);
	}
	assert_int_equal(buffers->count, NET_QUEUE_SIZE);
	/* With room for another, there are too many. */
	traffic_arrive(driver, 72, 2);
	net_driver_poll(driver);
	assert_true(driver->broken);
	assert_non_null(strstr(driver->broken_by.text, "jumped"));
}

static void test_receive_many(void **state)
{
	struct net_driver *driver = *state;

	for (unsigned int i = 0; i < 3 * NET_QUEUE_SIZE; i++) {
		net_driver_post(driver, 1536);
		if (i % 3 == 2)
			for (uint8_t j = 0; j < 3; j++)
				traffic_arrive(driver, 100u + j, j);
		net_driver_poll(driver);
		for (uint8_t j = 0; j < 3 && i % 3 == 2; j++)
			traffic_expect(driver, 100u + j, j, 1);
	}
	traffic_expect_nothing(driver);
}

/* Packets of all sizes, a driver that kicks only when asked to: none is lost, changed or stuck. */
static void test_receive_at_random(void **state)
{
	struct net_driver *driver = *state;
	uint32_t sizes[16];
	unsigned int sent = 0, received = 0;

	net_driver_reset(driver);
	driver->event_idx = true;
	net_driver_activate(driver, NET_ALL);
	srandom(7);
	while (received < 20000) {
		uint32_t size = 60 + (uint32_t)random() % (random() % 4 ? 1500 : 65000);
		unsigned int posts = (unsigned int)random() % 40;

		if (sent - received < ARRAY_LEN(sizes) && random() % 3) {
			sizes[sent % ARRAY_LEN(sizes)] = size;
			traffic_arrive(driver, size, (uint8_t)sent);
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

			if (net_driver_receive(driver, traffic_got, sizeof(traffic_got), NULL) == 0)
				break;
			traffic_make(wanted, (uint8_t)received);
			assert_memory_equal(traffic_got + NET_HEADER, traffic_packet + NET_HEADER,
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
	while (net_driver_receive(driver, traffic_got, sizeof(traffic_got), NULL))
		received++;
	assert_int_equal(received, sent);
}

static void test_reset_with_a_packet_waiting(void **state)
{
	struct net_driver *driver = *state;

	net_driver_post(driver, 1536);
	traffic_arrive(driver, 5000, 1);
	net_driver_poll(driver);
	traffic_expect_nothing(driver);
	assert_int_equal(driver->net.pairs[0].buffers->count, 1);
	net_driver_reset(driver);
	assert_int_equal(driver->net.pairs[0].buffers->count, 0);
	net_driver_activate(driver, NET_ALL);
	for (int i = 0; i < 4; i++)
		net_driver_post(driver, 1536);
	traffic_arrive(driver, 70, 2);
	net_driver_poll(driver);
	traffic_expect(driver, 70, 2, 1);
	traffic_expect_nothing(driver);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, traffic_setup, traffic_teardown)
	const struct CMUnitTest tests[] = {
		TEST(receive),
		TEST(receive_over_many_buffers),
		TEST(receive_starved),
		TEST(receive_what_never_fits),
		TEST(receive_into_one_buffer),
		TEST(receive_broken_buffer),
		TEST(receive_into_4_gib),
		TEST(receive_into_more_than_there_are),
		TEST(receive_many),
		TEST(receive_at_random),
		TEST(reset_with_a_packet_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
