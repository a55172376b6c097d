/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Says what inotify(7) tells inside a container: "ready", then a line "PATH NAME EVENT" for each,
 * where PATH is one of the arguments. Ends only with its container.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

static const struct {
	uint32_t bit;
	const char *name;
} events[] = {
	{ IN_MODIFY, "modify" },	   { IN_ATTRIB, "attrib" },
	{ IN_CLOSE_WRITE, "close_write" }, { IN_MOVED_FROM, "moved_from" },
	{ IN_MOVED_TO, "moved_to" },	   { IN_CREATE, "create" },
	{ IN_DELETE, "delete" },	   { IN_DELETE_SELF, "delete_self" },
	{ IN_MOVE_SELF, "move_self" },	   { IN_IGNORED, "ignored" },
	{ IN_Q_OVERFLOW, "overflow" },
};

#define EVENTS (sizeof(events) / sizeof(events[0]))

static void tell(const char *path, const struct inotify_event *event)
{
	for (size_t i = 0; i < EVENTS; i++)
		if (event->mask & events[i].bit)
			printf("%s %s %s\n", path, event->len ? event->name : "-", events[i].name);
}

int main(int argc, char **argv)
{
	static _Alignas(struct inotify_event) char buffer[65536];
	uint32_t mask = 0;
	int fd = inotify_init1(0);
	ssize_t n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < EVENTS; i++)
		mask |= events[i].bit & ~(uint32_t)(IN_IGNORED | IN_Q_OVERFLOW);
	/* A new descriptor numbers its watches from 1. */
	for (int i = 1; i < argc; i++)
		if (inotify_add_watch(fd, argv[i], mask) != i) {
			perror(argv[i]);
			return 1;
		}
	printf("ready\n");
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			tell(event->wd > 0 && event->wd < argc ? argv[event->wd] : "-", event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	return 1;
}
