/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes the socket device: the input is a script of packets with any header, kicks, receive
 * buffers, host reads and writes, and resets. Ports of every kind of descriptor wait for it.
 */
#include "../unit/vsock_driver.h"
#include "base/fd.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PORT 16u

struct host {
	int ends[3]; /* of the pipe to the guest, the pipe from it, and the socket */
};

static void add(struct driver *driver, uint32_t port, int fd, uint32_t flags)
{
	struct err err;

	(void)vsock_port_add(driver->device, port, fd, flags, &err);
}

static void add_ports(struct driver *driver, struct host *host)
{
	int to[2], from[2], sock[2];

	if (pipe2(to, O_NONBLOCK | O_CLOEXEC) < 0 || pipe2(from, O_NONBLOCK | O_CLOEXEC) < 0 ||
	    fd_socketpair(SOCK_STREAM, sock) < 0)
		abort();
	add(driver, PORT, to[0], VMM_PORT_READ);
	add(driver, PORT + 1, from[1], VMM_PORT_WRITE);
	add(driver, PORT + 2, sock[0], VMM_PORT_READ | VMM_PORT_WRITE | VMM_PORT_SOCKET);
	add(driver, PORT + 3, open("/dev/null", O_RDWR | O_CLOEXEC),
	    VMM_PORT_READ | VMM_PORT_WRITE);
	host->ends[0] = to[1];
	host->ends[1] = from[0];
	host->ends[2] = sock[1];
}

/* One step of the script; returns how many bytes of the input it used. */
static size_t step(struct driver *driver, struct host *host, const uint8_t *data, size_t size)
{
	static uint8_t scratch[70000];
	uint8_t what = data[0] & 7, arg = size > 1 ? data[1] : 0;
	struct packet packet;

	switch (what) {
	case 0: /* a whole packet as it comes */
		driver_send_raw(driver, data, (uint32_t)(size < 80 ? size : 80), arg);
		return size < 80 ? size : 80;
	case 1: /* a plausible one */
		driver_send(driver, arg & 7, PORT + ((arg >> 3) & 3), 1000, size > 2 ? data[2] : 0,
			    scratch, size > 3 ? data[3] * 257u : 0);
		return 4;
	case 2:
		driver_post(driver, arg & 31);
		return 2;
	case 3:
		while (driver_receive(driver, &packet))
			;
		return 1;
	case 4:
		if (host->ends[arg % 3] >= 0)
			(void)!write(host->ends[arg % 3], scratch, arg * 16u);
		return 2;
	case 5:
		if (arg & 8)
			fd_replace(&host->ends[arg % 3], -1);
		else if (host->ends[1] >= 0)
			(void)!read(host->ends[1], scratch, sizeof(scratch));
		return 2;
	case 6:
		driver_buf_alloc = arg & 1 ? 1u << 20 : arg;
		driver_fwd_cnt = arg * 131u;
		return 2;
	default:
		driver_poll(driver);
		if (arg == 0) {
			driver_reset(driver);
			driver_activate(driver);
		}
		return 2;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct driver driver;
	struct host host;

	signal(SIGPIPE, SIG_IGN);
	driver_init(&driver);
	add_ports(&driver, &host);
	/* Sockets of the host side must not block the fuzzer. */
	fcntl(host.ends[2], F_SETFL, O_NONBLOCK);
	while (size > 0) {
		size_t used = step(&driver, &host, data, size);

		if (used > size)
			break;
		data += used;
		size -= used;
	}
	driver_poll(&driver);
	for (int i = 0; i < 3; i++)
		fd_replace(&host.ends[i], -1);
	driver_free(&driver);
	return 0;
}
