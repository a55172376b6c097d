/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests need inside of a container and busybox has not.
 *
 * usage: inside watch DIRECTORY    prints the names of files that come into being, as inotify tells
 *        inside udp PORT           prints the datagrams that come
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

static int watch(const char *directory)
{
	union {
		struct inotify_event event;
		char bytes[4096];
	} buffer;
	int fd = inotify_init();

	if (inotify_add_watch(fd, directory, IN_CREATE) < 0)
		return 1;
	puts("watching");
	for (;;) {
		ssize_t n = read(fd, &buffer, sizeof(buffer));

		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(buffer.bytes + at);

			puts(event->name);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
}

static int udp(const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((in_port_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char text[100];
	ssize_t n;

	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return 1;
	while ((n = recv(fd, text, sizeof(text), 0)) >= 0)
		printf("%.*s\n", (int)n, text);
	return 1;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "watch") == 0)
		return watch(argv[2]);
	return argc == 3 && strcmp(argv[1], "udp") == 0 ? udp(argv[2]) : 2;
}
