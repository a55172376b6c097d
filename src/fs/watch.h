/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Watches (inotify(7)) on directories of shared trees, and on files that are trees: what the host
 * does there, without what the guest did itself. They are few and best effort: where the host gives
 * no more, the guest is told less.
 */
#pragma once

#include "fs/node.h"

#include <sys/types.h>

/* Each keeps an inode in the host's memory, about 1.2 KiB. */
#define WATCHES_MAX   4096u
#define WATCH_BUCKETS 512u
#define OWN_MAX	      16u /* names that one request changes: two, and more than one may be served */

/* What happened to name in node; name is "" where it happened to a file that is a tree. */
typedef void (*watch_event)(void *data, struct node *node, const char *name, uint32_t mask);

struct watches {
	watch_event event; /* the owner's, set before the first watch */
	void *data;
	int fd;	   /* -1: there is none */
	bool on;   /* somebody wants to know */
	bool full; /* the host gave no more */
	size_t count;
	struct node *buckets[WATCH_BUCKETS]; /* by watch descriptor, linked by next_watch */
	uint64_t own[OWN_MAX];		     /* names that the guest is changing */
	size_t own_count;
};

/*
 * watches_init() - with a descriptor that is counted as this user's: how many one may have is
 * limited, and root's are for the host. Where none is to be had, it does nothing from then on.
 */
#define WATCHES_UID_OWN ((uid_t)-1)
void watches_init(struct watches *watches, uid_t uid);
void watches_close(struct watches *watches);

/* watch_add() - watch a node from now on; fd: it, opened with O_PATH, in the working directory. */
void watch_add(struct watches *watches, struct node *node, int fd);
void watch_remove(struct watches *watches, struct node *node);
void watches_remove_all(struct watches *watches);
/* watch_wanted() - whether watch_add() would try. */
static inline bool watch_wanted(const struct watches *watches, const struct node *node)
{
	return watches->on && !node->watch && !watches->full && watches->count < WATCHES_MAX;
}

/*
 * watch_own() - the guest itself is about to do something to this name, of which watches_read()
 * does not tell. The owner calls that once it is done, and then sets own_count to 0: the events of
 * a system call are there when it returns. Those that were there before are read first.
 */
void watch_own(struct watches *watches, const struct node *dir, const char *name);
/* watch_own_node() - the same, to a node by the name it is known by. */
void watch_own_node(struct watches *watches, const struct node *node);

/* watches_read() - tell watches->event all that has happened. */
void watches_read(struct watches *watches);
