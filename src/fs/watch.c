/* SPDX-License-Identifier: GPL-2.0-or-later */
/* inotify(7), from watch descriptors to nodes. One descriptor may be that of several nodes. */
#include "fs/watch.h"

#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EVENTS_FILE (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)
#define EVENTS_DIR                                                                                 \
	(EVENTS_FILE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_EXCL_UNLINK |      \
	 IN_ONLYDIR)

#define READ_SIZE   16384u
#define READ_ROUNDS 256 /* at once: the host may be quicker than we are */
#define EVENT_MAX   (sizeof(struct inotify_event) + NAME_MAX + 1)

void watches_init(struct watches *watches, uid_t uid)
{
	/* By system call, as this process has one thread: capabilities come back with the id. */
	bool become = uid != WATCHES_UID_OWN && syscall(SYS_setresuid, -1, uid, -1) == 0;

	watches->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (become)
		syscall(SYS_setresuid, -1, 0, -1);
}

void watches_close(struct watches *watches)
{
	fd_replace(&watches->fd, -1);
}

static struct node **bucket_of(struct watches *watches, int watch)
{
	return &watches->buckets[(unsigned int)watch % WATCH_BUCKETS];
}

void watch_add(struct watches *watches, struct node *node, int fd)
{
	bool directory = S_ISDIR(node->identity.type);
	char path[16];
	struct node **bucket;
	int watch;

	if (!watch_wanted(watches, node))
		return;
	snprintf(path, sizeof(path), "%d", fd);
	watch = inotify_add_watch(watches->fd, path, directory ? EVENTS_DIR : EVENTS_FILE);
	if (watch <= 0) {
		watches->full = errno == ENOSPC;
		return;
	}
	bucket = bucket_of(watches, watch);
	node->watch = watch;
	node->next_watch = *bucket;
	*bucket = node;
	watches->count++;
}

static bool is_watched(struct watches *watches, int watch)
{
	const struct node *node = *bucket_of(watches, watch);

	while (node && node->watch != watch)
		node = node->next_watch;
	return node;
}

static void unlink_watch(struct watches *watches, struct node *node)
{
	struct node **link = bucket_of(watches, node->watch);

	while (*link != node)
		link = &(*link)->next_watch;
	*link = node->next_watch;
	node->next_watch = NULL;
	node->watch = 0;
	watches->count--;
	watches->full = false;
}

void watch_remove(struct watches *watches, struct node *node)
{
	int watch = node->watch;

	if (!watch)
		return;
	unlink_watch(watches, node);
	if (!is_watched(watches, watch))
		inotify_rm_watch(watches->fd, watch);
}

void watches_remove_all(struct watches *watches)
{
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		while (watches->buckets[i])
			watch_remove(watches, watches->buckets[i]);
}

/* FNV-1a over the directory's index and the name. Two that are the same hide one another. */
static uint64_t own_key(const struct node *dir, const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	hash = (hash ^ dir->index) * 0x100000001b3ull;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3ull;
	return hash;
}

static bool is_own(const struct watches *watches, const struct node *dir, const char *name)
{
	uint64_t key = watches->own_count ? own_key(dir, name) : 0;

	for (size_t i = 0; i < watches->own_count; i++)
		if (watches->own[i] == key)
			return true;
	return false;
}

void watch_own(struct watches *watches, const struct node *dir, const char *name)
{
	if (!dir->watch || is_own(watches, dir, name))
		return;
	watches_read(watches);
	if (watches->own_count < OWN_MAX)
		watches->own[watches->own_count++] = own_key(dir, name);
}

void watch_own_node(struct watches *watches, const struct node *node)
{
	if (node->parent)
		watch_own(watches, node->parent, node->name);
	watch_own(watches, node, "");
}

/* The host took the directory away, or the file system it was on. */
static void ignored(struct watches *watches, int watch)
{
	struct node *next;

	for (struct node *node = *bucket_of(watches, watch); node; node = next) {
		next = node->next_watch;
		if (node->watch == watch)
			unlink_watch(watches, node);
	}
}

static void handle(struct watches *watches, const struct inotify_event *in)
{
	const char *name = in->len ? in->name : "";

	if (in->mask & IN_IGNORED) {
		ignored(watches, in->wd);
		return;
	}
	for (struct node *node = *bucket_of(watches, in->wd); node; node = node->next_watch) {
		/* Of a directory itself, its parent tells. */
		if (node->watch != in->wd || S_ISDIR(node->identity.type) != (*name != '\0'))
			continue;
		if (!is_own(watches, node, name))
			watches->event(watches->data, node, name, in->mask);
	}
}

void watches_read(struct watches *watches)
{
	uint64_t buffer[READ_SIZE / sizeof(uint64_t)];
	struct iovec iov = { buffer, sizeof(buffer) };
	ssize_t n = READ_SIZE;

	/* As many as fit are given at once: where there is room for another, there was none. */
	for (int i = 0; i < READ_ROUNDS && n > (ssize_t)(READ_SIZE - EVENT_MAX); i++) {
		n = preadv2(watches->fd, &iov, 1, -1, 0);
		for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
			const struct inotify_event *in = (const void *)((uint8_t *)buffer + at);

			handle(watches, in);
			at += (ssize_t)(sizeof(*in) + in->len);
		}
	}
}
