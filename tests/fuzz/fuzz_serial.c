/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The serial console's registers, two bytes a step, and its output to a pipe that fills up. */
#include "base/loop.h"
#include "vmm/serial.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct serial serial;
	static struct loop loop;
	static int pipe_fds[2];
	struct err err;
	uint8_t byte;

	if (!serial.loop &&
	    (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0 || loop_init(&loop, &err) < 0))
		return 0;
	if (serial_init(&serial, &loop, pipe_fds[1], &err) < 0)
		return 0;
	for (; size >= 2; data += 2, size -= 2) {
		uint16_t port = data[0] % SERIAL_PORTS;

		if (data[0] & 0x80)
			serial_read(&serial, port);
		else if (data[0] & 0x40)
			serial.wake.ready(&serial.wake, EPOLLIN, &err);
		else if (data[0] & 0x20)
			serial.out.ready(&serial.out, EPOLLOUT, &err);
		else if (data[0] & 0x10)
			(void)!read(pipe_fds[0], &byte, 1);
		else
			serial_write(&serial, port, data[1]);
	}
	loop_forget(&loop, &serial.out);
	loop_forget(&loop, &serial.wake);
	serial_free(&serial);
	return 0;
}
