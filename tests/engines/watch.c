/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints the names of files that come into being in a directory, as inotify tells of them. */
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	union {
		struct inotify_event event;
		char bytes[4096];
	} buffer;
	int fd = inotify_init();

	if (argc != 2 || inotify_add_watch(fd, argv[1], IN_CREATE) < 0)
		return 1;
	puts("watching");
	fflush(stdout);
	for (;;) {
		ssize_t n = read(fd, &buffer, sizeof(buffer));

		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(buffer.bytes + at);

			puts(event->name);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
		fflush(stdout);
	}
}
