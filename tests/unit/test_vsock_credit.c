/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket device and a guest or a reader that does not keep up, or does not keep to the rules.
 */
#include "vsock_ports.h"

#include "base/fd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include <cmocka.h>

/* What a reader leaves is kept, bounded by credit, delivered when it reads, credit told again. */
static void test_slow_reader(void **state)
{
	_cleanup_fd_ int reader = -1;
	uint32_t total = 0, sent = 200000;
	int in_pipe;
	ssize_t n;

	driver_post(&driver, 8);
	reader = open_pipe(PORT, true);
	for (uint32_t at = 0; at < sent; at += 50000)
		driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes + at, 50000);
	driver_send(&driver, VIRTIO_VSOCK_OP_CREDIT_REQUEST, PORT, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	assert_int_equal(ioctl(reader, FIONREAD, &in_pipe), 0);
	assert_true(in_pipe > 60000);
	assert_int_equal(le32toh(packet.hdr.fwd_cnt), in_pipe);
	/* No events while nobody reads. */
	driver_poll(&driver);
	assert_int_equal(driver_poll(&driver), 0);
	/* The guest closes; the bytes still come, then the end. */
	driver_send(&driver, VIRTIO_VSOCK_OP_SHUTDOWN, PORT, GUEST, 3, NULL, 0);
	assert_false(is_closed(PORT));
	for (;;) {
		uint8_t got[4096];

		n = read(reader, got, sizeof(got));
		if (n < 0) {
			assert_true(driver_poll(&driver) > 0);
			continue;
		}
		if (n == 0)
			break;
		assert_memory_equal(got, bytes + total, (size_t)n);
		total += (uint32_t)n;
	}
	assert_int_equal(total, sent);
	assert_true(is_closed(PORT));
}

static void test_guest_ignores_credit(void **state)
{
	_cleanup_fd_ int reader = -1;
	uint32_t pipe_size;

	driver_post(&driver, 8);
	reader = open_pipe(PORT, true);
	pipe_size = (uint32_t)fcntl(reader, F_GETPIPE_SZ);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, pipe_size);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, VSOCK_BUFFER_MAX);
	expect(VIRTIO_VSOCK_OP_CREDIT_UPDATE); /* for what the pipe took */
	expect_nothing();
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 1);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
	assert_false(driver.broken);
}

static void test_guest_credit_is_kept(void **state)
{
	_cleanup_fd_ int writer = -1;

	driver_post(&driver, 16);
	driver_buf_alloc = 1000;
	writer = open_pipe(PORT, false);
	assert_int_equal(write(writer, bytes, 2500), 2500);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, 1000);
	assert_int_equal(driver_poll(&driver), 0);
	expect_nothing();
	driver_fwd_cnt = 600;
	driver_send(&driver, VIRTIO_VSOCK_OP_CREDIT_UPDATE, PORT, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, 600);
	assert_memory_equal(packet.data, bytes + 1000, 600);
	/* Counts that make no sense stop the stream and nothing else. */
	driver_fwd_cnt = 600000;
	driver_send(&driver, VIRTIO_VSOCK_OP_CREDIT_UPDATE, PORT, GUEST, 0, NULL, 0);
	expect_nothing();
	driver_fwd_cnt = 1600;
	driver_send(&driver, VIRTIO_VSOCK_OP_CREDIT_UPDATE, PORT, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, 900);
}

/* CVE-2020-16843: no buffers, then buffers: traffic goes on. */
static void test_rx_starved_then_fed(void **state)
{
	_cleanup_fd_ int writer = -1;
	uint32_t total = 0;

	driver_post(&driver, 1);
	writer = open_pipe(PORT, false);
	assert_int_equal(write(writer, bytes, 20000), 20000);
	driver_poll(&driver);
	expect_nothing();
	assert_int_equal(driver_poll(&driver), 0);
	for (int i = 0; i < 5; i++) {
		driver_post(&driver, 1);
		expect(VIRTIO_VSOCK_OP_RW);
		assert_memory_equal(packet.data, bytes + total, packet.size);
		total += packet.size;
	}
	assert_int_equal(total, 20000);
}

/* CVE-2020-27174: a flood of what must be answered, with no buffer for the answers. */
static void test_flood_without_buffers(void **state)
{
	unsigned int resets = 0;

	for (uint32_t i = 0; i < 90; i++) /* 64 in the list, the rest stays in the queue */
		driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, 1000 + i, GUEST, 0, NULL, 0);
	expect_nothing();
	for (int i = 0; i < 4; i++) {
		driver_post(&driver, 40);
		driver_poll(&driver);
		while (driver_receive(&driver, &packet)) {
			assert_int_equal(packet.hdr.op, VIRTIO_VSOCK_OP_RST);
			resets++;
		}
	}
	assert_int_equal(resets, 90);
	assert_false(driver.broken);
}

static void test_reset_delivers_the_rest(void **state)
{
	_cleanup_fd_ int reader = -1;
	uint32_t total = 0;

	driver_post(&driver, 8);
	reader = open_pipe(PORT, true);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 100000);
	driver_reset(&driver);
	assert_false(is_closed(PORT));
	while (total < 100000) {
		uint8_t got[4096];
		ssize_t n = read(reader, got, sizeof(got));

		if (n > 0) {
			assert_memory_equal(got, bytes + total, (size_t)n);
			total += (uint32_t)n;
		}
		driver_poll(&driver);
	}
	assert_true(is_closed(PORT));
	/* And the device serves the next driver. */
	driver_activate(&driver);
	driver_post(&driver, 4);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 10);
	expect(VIRTIO_VSOCK_OP_RST);
}

static void test_malformed_packets(void **state)
{
	struct virtio_vsock_hdr hdr = { .src_cid = VSOCK_GUEST_CID, .dst_cid = 2 };
	_cleanup_fd_ int reader = -1;
	uint8_t got[8];

	driver_post(&driver, 32);
	reader = open_pipe(PORT, true);
	driver_send_raw(&driver, &hdr, 10, 0); /* no header */
	hdr.src_cid = 7;
	driver_send_raw(&driver, &hdr, sizeof(hdr), 5); /* another's address */
	hdr.src_cid = VSOCK_GUEST_CID;
	hdr.dst_cid = 1;
	driver_send_raw(&driver, &hdr, sizeof(hdr), 0);
	expect_nothing();
	hdr.dst_cid = 2;
	hdr.dst_port = PORT;
	hdr.src_port = GUEST + 1; /* another connection's port */
	hdr.type = VIRTIO_VSOCK_TYPE_STREAM;
	hdr.op = VIRTIO_VSOCK_OP_RW;
	driver_send_raw(&driver, &hdr, sizeof(hdr), 0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_int_equal(le32toh(packet.hdr.dst_port), GUEST + 1);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, "ok", 2);
	assert_int_equal(read(reader, got, sizeof(got)), 2);
	hdr.src_port = GUEST; /* says that more follows than there is */
	hdr.len = 1000;
	driver_send_raw(&driver, &hdr, sizeof(hdr), 0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
	assert_false(driver.broken);
}

static void test_write_to_a_read_only_port(void **state)
{
	_cleanup_fd_ int writer = -1;

	driver_post(&driver, 8);
	writer = open_pipe(PORT, false);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, "x", 1);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_slow_reader),		  TEST(test_guest_ignores_credit),
		TEST(test_guest_credit_is_kept),  TEST(test_rx_starved_then_fed),
		TEST(test_flood_without_buffers), TEST(test_reset_delivers_the_rest),
		TEST(test_malformed_packets),	  TEST(test_write_to_a_read_only_port),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
