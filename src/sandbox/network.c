/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A new network namespace has a loopback device that is down: bring it up. */
#include "sandbox/setup.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int network_loopback_up(struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (fd < 0 && errno == EAFNOSUPPORT) /* a kernel without IPv4 still has Unix sockets */
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, errno, "open a socket");
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_set(err, errno, "bring the loopback device up");
	return 0;
}
