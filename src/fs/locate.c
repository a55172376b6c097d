/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a node is: from its place (parent, name) to an O_PATH descriptor, one checked component at
 * a time and never through a symlink, each compared with the identity that was looked up. The
 * descriptors are a cache of bounded size: a directory of 100,000 files needs none for each.
 */
#include "fs/node.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

static bool is_cached(const struct node *node)
{
	return node->fd >= 0 && node->parent;
}

static void unlink_use(struct nodes *nodes, struct node *node)
{
	*(node->newer ? &node->newer->older : &nodes->newest) = node->older;
	*(node->older ? &node->older->newer : &nodes->oldest) = node->newer;
	node->newer = NULL;
	node->older = NULL;
}

static void link_newest(struct nodes *nodes, struct node *node)
{
	node->older = nodes->newest;
	node->newer = NULL;
	*(nodes->newest ? &nodes->newest->newer : &nodes->oldest) = node;
	nodes->newest = node;
}

void node_drop_fd(struct nodes *nodes, struct node *node)
{
	if (node->fd < 0)
		return;
	if (is_cached(node)) {
		unlink_use(nodes, node);
		nodes->cached--;
	} else {
		nodes->pinned--;
	}
	fd_replace(&node->fd, -1);
}

/* Closes the descriptor unused for longest, but none that this request uses. */
static bool drop_oldest(struct nodes *nodes)
{
	struct node *node = nodes->oldest;

	while (node && node->held == nodes->request)
		node = node->newer;
	if (node)
		node_drop_fd(nodes, node);
	return node;
}

/* Whatever this request has touched keeps its descriptor until the request is done. */
static void touch(struct nodes *nodes, struct node *node)
{
	node->held = nodes->request;
	if (is_cached(node) && node != nodes->newest) {
		unlink_use(nodes, node);
		link_newest(nodes, node);
	}
}

/* What a component that is no longer what it was means to the guest. */
static int moved_errno(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ELOOP ? -ESTALE : -code;
}

int node_check_mount(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == PROC_SUPER_MAGIC ? -EACCES : 0;
}

/* Opens a node whose parent is open. */
static int open_in_parent(struct nodes *nodes, struct node *node)
{
	_cleanup_fd_ int fd = -1;
	struct identity identity;
	struct statx stx;
	int r;

	while (nodes->cached >= nodes->cached_max && drop_oldest(nodes))
		;
	fd = openat(node->parent->fd, node->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == EMFILE ? -ENFILE : moved_errno(errno);
	if (statx(fd, "", AT_EMPTY_PATH, NODE_STATX, &stx) < 0)
		return -errno;
	identity = identity_of(&stx, node->identity.tree);
	if (!identity_equal(&identity, &node->identity))
		return -ESTALE;
	if (identity.mount != node->parent->identity.mount) {
		r = node_check_mount(fd);
		if (r < 0)
			return r;
	}
	node->fd = fd_steal(&fd);
	nodes->cached++;
	link_newest(nodes, node);
	return 0;
}

/* Opens nodes from this one, whose parent is open, down to another: each is the parent's below. */
static int open_down(struct nodes *nodes, struct node *at, struct node *last)
{
	struct node *below;
	int r = 0;

	for (; r == 0; at = below) {
		struct node *parent = at->parent;
		/* Only the last one stays open for sure: a chain may be longer than the cache. Its
		 * parent does while it is being opened. */
		uint32_t held = parent->held;

		below = at->below;
		touch(nodes, parent);
		r = open_in_parent(nodes, at);
		parent->held = held;
		if (at == last)
			break;
	}
	return r;
}

int node_fd(struct nodes *nodes, struct node *node)
{
	struct node *at = node;
	int r;

	if (node_is_top(node))
		return -EPERM;
	if (node->fd < 0) {
		while (at->parent && at->parent->fd < 0) {
			at->parent->below = at;
			at = at->parent;
		}
		if (!at->parent)
			return -ESTALE;
		r = open_down(nodes, at, node);
		if (r < 0)
			return r;
	}
	touch(nodes, node);
	return node->fd;
}

int node_stat(struct nodes *nodes, struct node *node, struct statx *stx)
{
	struct identity identity;
	int dir;

	if (node->fd >= 0) {
		if (statx(node->fd, "", AT_EMPTY_PATH, NODE_STATX, stx) < 0)
			return -errno;
		return 0;
	}
	if (!node->parent)
		return -ESTALE;
	dir = node_fd(nodes, node->parent);
	if (dir < 0)
		return dir;
	if (statx(dir, node->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, NODE_STATX, stx) < 0)
		return moved_errno(errno);
	identity = identity_of(stx, node->identity.tree);
	return identity_equal(&identity, &node->identity) ? 0 : -ESTALE;
}

bool node_is_at(const struct node *node, const struct node *parent, const char *name)
{
	return node->parent == parent && strcmp(node->name, name) == 0;
}

static bool is_above(const struct node *node, const struct node *below)
{
	while (below && below != node)
		below = below->parent;
	return below;
}

void node_place(struct nodes *nodes, struct node *node, struct node *parent, const char *name)
{
	struct node *old = node->parent;
	bool was_pinned = node->fd >= 0 && !old;

	if (node_is_at(node, parent, name))
		return;
	if (node->references && is_above(node, parent)) {
		/* The host turned the tree upside down: what is known of the parent is old. */
		node_unplace(nodes, node);
		return;
	}
	free(node->name);
	node->name = xstrdup(name);
	node->parent = parent;
	node_reference(parent);
	if (was_pinned) {
		nodes->pinned--;
		nodes->cached++;
		link_newest(nodes, node);
	}
	if (old)
		node_release(nodes, old);
}

void node_unplace(struct nodes *nodes, struct node *node)
{
	struct node *old = node->parent;

	if (!old)
		return;
	if (node->fd >= 0 && nodes->pinned >= nodes->pinned_max)
		node_drop_fd(nodes, node);
	if (node->fd >= 0) {
		unlink_use(nodes, node);
		nodes->cached--;
		nodes->pinned++;
	}
	free(node->name);
	node->name = NULL;
	node->parent = NULL;
	node_release(nodes, old);
}

void node_give_fd(struct nodes *nodes, struct node *node, int fd)
{
	node_drop_fd(nodes, node);
	node->fd = fd;
	nodes->pinned++;
}
