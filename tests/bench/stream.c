/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's part of tests/bench/network: three connections to a host, one after the other. Over
 * the first it sends, over the second it receives, over the third it echoes.
 * usage: stream ADDRESS PORT BYTES; the ports are PORT and the two after it.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK (256u << 10)

static char block[BLOCK];

static int dial(const char *address, int port)
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (inet_pton(AF_INET, address, &peer.sin_addr) != 1 || fd < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    connect(fd, (struct sockaddr *)&peer, sizeof(peer)) < 0) {
		perror("stream: connect");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	long long left = argc == 4 ? atoll(argv[3]) : 0;
	int port = argc == 4 ? atoi(argv[2]) : 0, fd;
	ssize_t n;

	if (left <= 0) {
		fprintf(stderr, "usage: stream ADDRESS PORT BYTES\n");
		return 2;
	}
	fd = dial(argv[1], port);
	while (left > 0 && (n = write(fd, block, left < BLOCK ? (size_t)left : BLOCK)) > 0)
		left -= n;
	close(fd);
	fd = dial(argv[1], port + 1);
	while (read(fd, block, BLOCK) > 0)
		;
	close(fd);
	fd = dial(argv[1], port + 2);
	while ((n = read(fd, block, BLOCK)) > 0)
		(void)!write(fd, block, (size_t)n);
	return left != 0;
}
