/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connections to the host. An answer takes a few exits of the vCPU, in which other work is done. */
#include "guest/vsock.h"

#include "base/fd.h"

#include <linux/vm_sockets.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#define CONNECT_TIMEOUT_MS 30000

int vsock_begin(uint32_t port, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const struct timeval timeout = { .tv_sec = CONNECT_TIMEOUT_MS / 1000 };
	struct sockaddr_vm address = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = port,
	};

	/* The kernel's own patience is two seconds, and writing a template may take that long. */
	if (fd < 0 ||
	    setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &timeout, sizeof(timeout)) < 0)
		return err_set(err, errno, "make a vsock socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS)
		return err_set(err, errno, "connect to port %u of the host", port);
	return fd_steal(&fd);
}

int vsock_finish(int fd, uint32_t port, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int error = 0, n;
	socklen_t size = sizeof(error);

	do
		n = poll(&p, 1, CONNECT_TIMEOUT_MS);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		error = ETIMEDOUT;
	else if (n < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error)
		return err_set(err, error, "connect to port %u of the host", port);
	return 0;
}
