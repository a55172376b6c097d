/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The socket device against an in-memory driver: ports, streams and their ends. */
#include "vsock_ports.h"

#include "base/fd.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

static void test_unknown_port_is_reset(void **state)
{
	driver_post(&driver, 4);
	driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, 99, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_int_equal(le32toh(packet.hdr.src_port), 99);
	assert_int_equal(le32toh(packet.hdr.dst_port), GUEST);
	/* A reset is not answered with a reset. */
	driver_send(&driver, VIRTIO_VSOCK_OP_RST, 99, GUEST, 0, NULL, 0);
	expect_nothing();
	assert_true(driver.interrupts > 0);
}

static int late_fd;

static void add_late(struct driver *owner)
{
	add_port(PORT, late_fd, VMM_PORT_READ);
	owner->missing = NULL;
}

/* The monitor tells the guest of a port while its word to the vmm still waits to be read. */
static void test_port_that_is_about_to_be(void **state)
{
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	late_fd = pair[0];
	driver_post(&driver, 4);
	driver.missing = add_late;
	driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, PORT, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RESPONSE);
	driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, PORT + 1, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RST);
	close(pair[1]);
}

static void test_guest_writes_to_pipe(void **state)
{
	_cleanup_fd_ int reader = -1;
	uint8_t got[1000];

	driver_post(&driver, 8);
	reader = open_pipe(PORT, true);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 1000);
	assert_int_equal(read(reader, got, sizeof(got)), 1000);
	assert_memory_equal(got, bytes, 1000);
	/* close(2) in the guest: both halves at once, answered with a reset */
	driver_send(&driver, VIRTIO_VSOCK_OP_SHUTDOWN, PORT, GUEST, 3, NULL, 0);
	assert_int_equal(read(reader, got, sizeof(got)), 0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
	/* One connection a port: the entry is gone. */
	driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, PORT, GUEST, 0, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RST);
}

static void test_guest_reads_from_pipe(void **state)
{
	_cleanup_fd_ int writer = -1;

	driver_post(&driver, 8);
	writer = open_pipe(PORT, false);
	assert_int_equal(write(writer, bytes, 5000), 5000);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, DRIVER_BUFFER - sizeof(packet.hdr));
	assert_int_equal(packet.hdr.len, packet.size);
	assert_memory_equal(packet.data, bytes, packet.size);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, 5000 - (DRIVER_BUFFER - sizeof(packet.hdr)));
	fd_replace(&writer, -1);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(le32toh(packet.hdr.flags), VIRTIO_VSOCK_SHUTDOWN_SEND);
	expect_nothing();
	assert_false(is_closed(PORT));
	driver_send(&driver, VIRTIO_VSOCK_OP_SHUTDOWN, PORT, GUEST, 3, NULL, 0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
}

static void test_regular_file_to_its_end(void **state)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	uint32_t total = 0;

	assert_int_equal(write(fd, bytes, 100000), 100000);
	lseek(fd, 0, SEEK_SET);
	driver_post(&driver, 60);
	open_port(PORT, fd, VMM_PORT_READ);
	while (driver_receive(&driver, &packet) && packet.hdr.op == VIRTIO_VSOCK_OP_RW) {
		assert_memory_equal(packet.data, bytes + total, packet.size);
		total += packet.size;
	}
	assert_int_equal(total, 100000);
	assert_int_equal(packet.hdr.op, VIRTIO_VSOCK_OP_SHUTDOWN);
}

static void test_regular_file_shared_offset(void **state)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	int second = fcntl(fd, F_DUPFD_CLOEXEC, 0), third = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	char got[16] = "";

	driver_post(&driver, 8);
	open_port(PORT, fd, VMM_PORT_WRITE);
	open_port(PORT + 1, second, VMM_PORT_WRITE);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, "out,", 4);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT + 1, GUEST, 0, "err,", 4);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, "out", 3);
	assert_int_equal(pread(third, got, sizeof(got), 0), 11);
	assert_string_equal(got, "out,err,out");
	close(third);
}

static void test_dev_null(void **state)
{
	driver_post(&driver, 8);
	open_port(PORT, open("/dev/null", O_RDWR | O_CLOEXEC), VMM_PORT_READ | VMM_PORT_WRITE);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 200000);
	expect(VIRTIO_VSOCK_OP_SHUTDOWN);
	expect(VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	assert_int_equal(le32toh(packet.hdr.fwd_cnt), 200000);
}

static void test_reader_goes_away(void **state)
{
	_cleanup_fd_ int reader = -1;

	driver_post(&driver, 8);
	reader = open_pipe(PORT, true);
	fd_replace(&reader, -1);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_RST); /* at once: the guest did not have to write */
	assert_true(is_closed(PORT));
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 10);
	expect(VIRTIO_VSOCK_OP_RST);
}

static void test_socket_halves(void **state)
{
	_cleanup_fd_ int mine = -1;
	uint8_t got[64];
	int pair[2];

	assert_int_equal(fd_socketpair(SOCK_STREAM, pair), 0);
	mine = pair[0];
	driver_post(&driver, 16);
	open_port(PORT, pair[1], VMM_PORT_READ | VMM_PORT_WRITE | VMM_PORT_SOCKET);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, "ping", 4);
	assert_int_equal(read(mine, got, sizeof(got)), 4);
	driver_send(&driver, VIRTIO_VSOCK_OP_SHUTDOWN, PORT, GUEST, VIRTIO_VSOCK_SHUTDOWN_SEND,
		    NULL, 0);
	assert_int_equal(read(mine, got, sizeof(got)), 0);
	/* The other half lives on. */
	assert_int_equal(write(mine, "pong", 4), 4);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_RW);
	assert_int_equal(packet.size, 4);
	fd_replace(&mine, -1);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_false(is_closed(PORT));
	driver_send(&driver, VIRTIO_VSOCK_OP_SHUTDOWN, PORT, GUEST, VIRTIO_VSOCK_SHUTDOWN_RCV, NULL,
		    0);
	expect(VIRTIO_VSOCK_OP_RST);
	assert_true(is_closed(PORT));
}

/* A descriptor that is shared, so it stays blocking: never a call that would block. */
static void test_blocking_pipe(void **state)
{
	_cleanup_fd_ int reader = -1;
	uint8_t got[4096];
	uint32_t total = 0;
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	reader = pair[0];
	driver_post(&driver, 8);
	open_port(PORT, pair[1], VMM_PORT_WRITE | VMM_PORT_BLOCKING);
	alarm(20);
	driver_send(&driver, VIRTIO_VSOCK_OP_RW, PORT, GUEST, 0, bytes, 150000);
	while (total < 150000) {
		ssize_t n = read(reader, got, sizeof(got));

		assert_memory_equal(got, bytes + total, (size_t)n);
		total += (uint32_t)n;
		driver_poll(&driver);
	}
	alarm(0);
	while (driver_receive(&driver, &packet))
		assert_int_equal(packet.hdr.op, VIRTIO_VSOCK_OP_CREDIT_UPDATE);

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	open_port(PORT + 1, pair[0], VMM_PORT_READ | VMM_PORT_BLOCKING);
	alarm(20);
	assert_int_equal(write(pair[1], "abc", 3), 3);
	driver_poll(&driver);
	alarm(0);
	while (driver_receive(&driver, &packet) && packet.hdr.op != VIRTIO_VSOCK_OP_RW)
		;
	assert_int_equal(packet.size, 3);
	close(pair[1]);
}

static void test_table_of_ports(void **state)
{
	struct err err;

	for (uint32_t i = 0; i < VSOCK_PORTS_MAX; i++)
		add_port(1000 + i, open("/dev/null", O_RDONLY | O_CLOEXEC), VMM_PORT_READ);
	assert_int_equal(vsock_port_add(driver.device, 1000, dup(0), VMM_PORT_READ, &err), -1);
	assert_int_equal(err.code, EEXIST);
	assert_int_equal(vsock_port_add(driver.device, 1, dup(0), VMM_PORT_READ, &err), -1);
	assert_int_equal(err.code, ENOSPC);
	vsock_port_remove(driver.device, 1000);
	vsock_port_remove(driver.device, 5); /* unknown */
	assert_int_equal(driver.closed_count, 0);
	add_port(1, dup(0), VMM_PORT_READ);
}

static void test_many_streams_take_turns(void **state)
{
	int writers[4];
	uint32_t seen[4] = { 0 };

	driver_post(&driver, 4);
	for (uint32_t i = 0; i < 4; i++)
		writers[i] = open_pipe(PORT + i, false);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(write(writers[i], bytes, 60000), 60000);
	driver_poll(&driver);
	for (int i = 0; i < 40; i++) {
		driver_post(&driver, 1);
		expect(VIRTIO_VSOCK_OP_RW);
		seen[le32toh(packet.hdr.src_port) - PORT]++;
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(seen[i], 10);
		close(writers[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_unknown_port_is_reset),
		TEST(test_port_that_is_about_to_be),
		TEST(test_guest_writes_to_pipe),
		TEST(test_guest_reads_from_pipe),
		TEST(test_regular_file_to_its_end),
		TEST(test_regular_file_shared_offset),
		TEST(test_dev_null),
		TEST(test_reader_goes_away),
		TEST(test_socket_halves),
		TEST(test_blocking_pipe),
		TEST(test_table_of_ports),
		TEST(test_many_streams_take_turns),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
