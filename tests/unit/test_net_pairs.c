/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The network device with several pairs of queues: which are in use, and the commands for that. */
#include "net_traffic.h"

#include "base/mem.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SEVERAL (NET_ALL | NET_F(CTRL_VQ) | NET_F(MQ))

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
	assert_int_equal(driver->net.device.offered, NET_F(CTRL_VQ) | NET_F(MQ));
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
	net_driver_activate(driver, NET_ALL | NET_F(CTRL_VQ));
	assert_int_equal(net_control_queue(&driver->net), NET_PAIR);
	net_driver_kick(driver, 2 * NET_DRIVER_PAIRS);
	check_attached(driver, false, false);
	net_driver_reset(driver);
	net_driver_activate(driver, NET_ALL);
	assert_int_equal(net_control_queue(&driver->net), -1);
	net_driver_kick(driver, 2 * NET_DRIVER_PAIRS);
	assert_false(driver->broken);
}

#define OFTEN 1000u

/* What the host's kernel has one lock for, the driver cannot ask for without end. */
static void test_changes_are_few(void **state)
{
	struct net_driver *driver = *state;
	unsigned int before = net_changes, done = 0;
	uint16_t last = 1;

	for (unsigned int i = 0; i < OFTEN; i++) {
		uint16_t pairs = 2 + i % 2;

		if (use(driver, pairs) == VIRTIO_NET_OK && pairs != last) {
			last = pairs;
			done++;
		}
		check_attached(driver, last > 1, last > 2);
	}
	assert_in_range(done, NET_CHANGES / 2, OFTEN / 2);
	assert_int_equal(net_changes - before, done);
	assert_int_equal(use(driver, last), VIRTIO_NET_OK); /* nothing to change */
	/* Nor by beginning anew each time. */
	before = net_changes;
	for (unsigned int i = 0; i < OFTEN; i++) {
		net_driver_reset(driver);
		net_driver_activate(driver, SEVERAL);
		use(driver, 3);
	}
	assert_false(driver->broken);
	assert_in_range(net_changes - before, 0, OFTEN);
	for (unsigned int i = 0; i < OFTEN; i++) {
		net_driver_reset(driver);
		net_driver_activate(driver, i % 2 ? SEVERAL : SEVERAL & ~NET_F(GUEST_CSUM));
	}
	assert_true(driver->broken);
	assert_in_range(net_changes - before, 0, OFTEN);
	/* When time has passed it can again. */
	driver->broken = false;
	driver->net.changes_paid -= 2 * NET_CHANGE_MS;
	net_driver_reset(driver);
	net_driver_activate(driver, SEVERAL);
	assert_int_equal(use(driver, 2), VIRTIO_NET_OK);
	check_attached(driver, true, false);
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
	traffic_arrive(driver, 70, 2);
	net_driver_poll(driver);
	traffic_expect(driver, 70, 2, 1);
	traffic_expect_nothing(driver);
	assert_int_equal(use(driver, 1), VIRTIO_NET_OK);
	assert_false(second->readable);
	assert_false(driver->broken);
}

/*
 * Fewer taps than there is room for: as many pairs, and of one nothing shows that it is not alone.
 */
static void test_fewer_taps(void **state)
{
	struct net_driver *driver = *state;
	struct net_device net;
	struct err err;
	int fd = dup(driver->wire);

	net_init(&net, &driver->loop, 4);
	net.device.transport = &driver->transport;
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
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup_pairs, traffic_teardown)
	const struct CMUnitTest tests[] = {
		TEST(pairs),	       TEST(commands_that_are_wrong),
		TEST(changes_are_few), TEST(pairs_are_apart),
		TEST(fewer_taps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
