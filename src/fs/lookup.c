/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * LOOKUP: one name in one directory to a node. It takes one statx(2) and opens nothing.
 */
#include "fs/told.h"

#include <errno.h>
#include <fcntl.h>

struct node *entry_fill(struct session *session, struct node *dir, const char *name,
			const struct statx *stx, struct fuse_entry_out *out)
{
	struct identity identity = identity_of(stx, dir->identity.tree);
	struct node *node = node_find(&session->nodes, &identity);

	if (!node)
		node = node_add(&session->nodes, &identity);
	if (!node)
		return NULL;
	node->lookups++;
	node_place(&session->nodes, node, dir, name);
	changes_know(session, node);
	*out = (struct fuse_entry_out){ .nodeid = node_id(node), .generation = node->generation };
	fresh_entry(session, node, out);
	attr_fill(session, &out->attr, stx);
	return node;
}

int entry_lookup(struct session *session, struct node *dir, const char *name,
		 struct fuse_entry_out *out)
{
	struct node *node;
	struct statx stx;
	int fd = node_fd(&session->nodes, dir);

	if (fd < 0)
		return fd;
	if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, NODE_STATX, &stx) < 0)
		return -errno;
	node = entry_fill(session, dir, name, &stx, out);
	if (!node)
		return -ENFILE;
	/* Who watches a file or a directory looks it up before. */
	changes_see(session, dir);
	changes_see(session, node);
	return 0;
}

int op_lookup(struct session *session, struct request *request, const void *arg)
{
	struct node *dir = request_node(session, request);
	struct fuse_entry_out out;
	const char *name;
	int r;

	if (!dir)
		return -ESTALE;
	r = request_name(request, &name);
	if (r < 0)
		return r;
	if (node_is_top(dir)) {
		r = top_lookup(session, name, &out);
		return r < 0 ? r : reply(request, &out, sizeof(out));
	}
	r = entry_lookup(session, dir, name, &out);
	if (r == -ENOENT) {
		fresh_none(session, dir, &out);
		r = 0;
	}
	return r < 0 ? r : reply(request, &out, sizeof(out));
}
