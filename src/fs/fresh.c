/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the guest may believe what it was told. Linux's virtio-fs has no queue on which a server
 * could take something back (6.12), so all there is are these times.
 *
 * The root file system is the container's own: names and attributes hold for a second. What is
 * shared with the host or with other containers changes behind the guest's back: there the name of
 * a file, and that there is none, is asked for at each use, which brings its attributes along.
 * Names of directories, names just listed, and attributes by themselves hold for a tick of the
 * guest's clock (10 ms), the shortest time that there is but for none. With none for them, too, the
 * guest would ask for each directory on the way, twice, and once more for each file that it lists:
 * `git status` then takes 2330 requests. This way they are 1000; with a second, 930.
 */
#include "fs/session.h"

#define SECONDS	   1
#define TICK_NSECS 1 /* is rounded up */

static bool is_shared(const struct session *session, const struct node *node)
{
	return !node_is_top(node) && session->trees[node->identity.tree].flags & FS_TREE_SHARED;
}

/* A file that is mounted by itself is used without its name: only its attributes are asked for. */
static uint32_t attr_nsecs(const struct session *session, const struct node *node)
{
	const struct node *root = session->trees[node->identity.tree].root;

	return node == root && S_ISREG(node->identity.type) ? 0 : TICK_NSECS;
}

void fresh_entry(const struct session *session, const struct node *node, struct fuse_entry_out *out)
{
	bool shared = is_shared(session, node), directory = S_ISDIR(node->identity.type);

	out->entry_valid = shared ? 0 : SECONDS;
	out->entry_valid_nsec = shared && directory ? TICK_NSECS : 0;
	out->attr_valid = shared ? 0 : SECONDS;
	out->attr_valid_nsec = shared ? attr_nsecs(session, node) : 0;
}

void fresh_listed(const struct session *session, const struct node *node,
		  struct fuse_entry_out *out)
{
	fresh_entry(session, node, out);
	if (is_shared(session, node))
		out->entry_valid_nsec = TICK_NSECS;
}

void fresh_none(const struct session *session, const struct node *dir, struct fuse_entry_out *out)
{
	*out = (struct fuse_entry_out){ .entry_valid = is_shared(session, dir) ? 0 : SECONDS };
}

void fresh_attr(const struct session *session, const struct node *node, struct fuse_attr_out *out)
{
	bool shared = is_shared(session, node);

	out->attr_valid = shared ? 0 : SECONDS;
	out->attr_valid_nsec = shared ? attr_nsecs(session, node) : 0;
}
