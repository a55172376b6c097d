/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ports of the socket device. */
#include "vsock_ports.h"

#include "vmm/vmm.h"

#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

struct driver driver;
struct packet packet;
uint8_t bytes[300u << 10];

int setup(void **state)
{
	driver_init(&driver);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

int teardown(void **state)
{
	driver_free(&driver);
	return 0;
}

void add_port(uint32_t port, int fd, uint32_t flags)
{
	struct err err;

	assert_int_equal(vsock_port_add(driver.device, port, fd, flags, &err), 0);
}

void expect(uint16_t op)
{
	assert_true(driver_receive(&driver, &packet));
	assert_int_equal(packet.hdr.op, op);
}

void expect_nothing(void)
{
	assert_false(driver_receive(&driver, &packet));
}

void open_port(uint32_t port, int fd, uint32_t flags)
{
	add_port(port, fd, flags);
	driver_send(&driver, VIRTIO_VSOCK_OP_REQUEST, port, GUEST, 0, NULL, 0);
	driver_poll(&driver);
	expect(VIRTIO_VSOCK_OP_RESPONSE);
	assert_int_equal(le32toh(packet.hdr.src_port), port);
	assert_int_equal(le32toh(packet.hdr.dst_port), GUEST);
	assert_int_equal(le64toh(packet.hdr.dst_cid), VSOCK_GUEST_CID);
	assert_int_equal(le32toh(packet.hdr.buf_alloc), VSOCK_BUFFER_MAX);
}

int open_pipe(uint32_t port, bool guest_writes)
{
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	open_port(port, pair[guest_writes], guest_writes ? VMM_PORT_WRITE : VMM_PORT_READ);
	return pair[!guest_writes];
}

bool is_closed(uint32_t port)
{
	for (uint32_t i = 0; i < driver.closed_count; i++)
		if (driver.closed[i] == port)
			return true;
	return false;
}
