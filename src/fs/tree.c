/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The top directory and the trees in it. It exists nowhere on the host: its entries are numbers,
 * each the root of a tree that the monitor gave. The guest can look at it and change nothing.
 */
#include "fs/told.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static int add_tree(struct session *session, const struct fs_tree_add *add, int fd, struct err *err)
{
	_cleanup_fd_ int owned = fd;
	struct identity identity;
	struct node *root;
	struct statx stx;
	int r;

	if (add->index >= FSD_TREES_MAX)
		return err_set(err, EINVAL, "add tree %u: there can be %u", add->index,
			       FSD_TREES_MAX);
	if (session->trees[add->index].root)
		return err_set(err, EEXIST, "add tree %u", add->index);
	if (statx(fd, "", AT_EMPTY_PATH, NODE_STATX, &stx) < 0)
		return err_set(err, errno, "add tree %u: look at it", add->index);
	if (!S_ISDIR(stx.stx_mode) && !S_ISREG(stx.stx_mode))
		return err_set(err, EINVAL, "add tree %u, neither a directory nor a file",
			       add->index);
	r = node_check_mount(fd);
	if (r < 0)
		return err_set(err, -r, "add tree %u: the file system that it is in", add->index);
	identity = identity_of(&stx, (uint16_t)add->index);
	root = node_add(&session->nodes, &identity);
	if (!root)
		return err_set(err, ENOMEM, "add tree %u: too many nodes", add->index);
	node_reference(root);
	node_give_fd(&session->nodes, root, fd_steal(&owned));
	session->trees[add->index] = (struct tree){ .root = root, .flags = add->flags };
	changes_see(session, root);
	return 0;
}

int session_add_tree(struct session *session, const struct fs_tree_add *add, int fd,
		     struct err *err)
{
	int r;

	pthread_mutex_lock(&session->lock);
	r = add_tree(session, add, fd, err);
	pthread_mutex_unlock(&session->lock);
	return r;
}

int node_writable(const struct session *session, const struct node *node)
{
	if (node_is_top(node) || session->trees[node->identity.tree].flags & FS_TREE_READ_ONLY)
		return -EROFS;
	return 0;
}

void top_attr(const struct session *session, struct fuse_attr *attr)
{
	*attr = (struct fuse_attr){ .ino = TOP_INODE,
				    .mode = S_IFDIR | 0555,
				    .nlink = 2,
				    .blksize = 4096,
				    .atime = (uint64_t)session->made.tv_sec,
				    .mtime = (uint64_t)session->made.tv_sec,
				    .ctime = (uint64_t)session->made.tv_sec };
}

int top_lookup(struct session *session, const char *name, struct fuse_entry_out *out)
{
	struct node *root;
	uint64_t index;
	int r;

	/* One way to write a number: "07" is none. */
	if (str_to_u64(name, FSD_TREES_MAX - 1, &index) < 0 || (name[0] == '0' && name[1]))
		return changes_lookup(session, name, out);
	root = session->trees[index].root;
	if (!root)
		return -ENOENT;
	*out = (struct fuse_entry_out){ .nodeid = node_id(root), .generation = root->generation };
	fresh_entry(session, root, out);
	r = node_attr(session, root, &out->attr);
	if (r < 0)
		return r;
	root->lookups++;
	changes_see(session, root);
	return 0;
}

bool top_next(const struct session *session, uint64_t *index)
{
	while (*index < FSD_TREES_MAX && !session->trees[*index].root)
		(*index)++;
	return *index < FSD_TREES_MAX;
}
