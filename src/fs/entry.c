/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names made and removed: MKNOD, MKDIR, SYMLINK, LINK, UNLINK, RMDIR, RENAME. A node whose name
 * goes is opened before, so that whoever has it open in the guest keeps it.
 */
#include "fs/told.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The directory of a request that changes it, as a descriptor; and the name in it. */
static int changed_dir(struct session *session, struct request *request, struct node **dir,
		       const char **name)
{
	int r;

	*dir = request_node(session, request);
	if (!*dir)
		return -ESTALE;
	r = request_name(request, name);
	if (r == 0)
		r = node_writable(session, *dir);
	if (r < 0)
		return r;
	watch_own(&session->watches, *dir, *name);
	return node_fd(&session->nodes, *dir);
}

static int reply_entry(struct session *session, struct request *request, struct node *dir,
		       const char *name)
{
	struct fuse_entry_out out;
	int r = entry_lookup(session, dir, name, &out);

	return r < 0 ? r : reply(request, &out, sizeof(out));
}

/* What a request makes, all told: the target for a symlink, else a mode. */
struct made {
	mode_t mode;
	dev_t device;
	uint32_t umask;
	const char *target;
};

static int make_at(int dir, const char *name, const struct made *made)
{
	if (made->target)
		return symlinkat(made->target, dir, name);
	if (S_ISDIR(made->mode))
		return mkdirat(dir, name, made->mode & ALLPERMS);
	return mknodat(dir, name, made->mode, made->device);
}

static int make(struct session *session, struct request *request, struct node *dir, int fd,
		const char *name, const struct made *made)
{
	const struct fuse_in_header *in = &request->in;
	int r;

	creds_umask(&request->worker->creds, made->umask);
	r = creds_become(&request->worker->creds, in->uid, in->gid);
	if (r < 0)
		return r;
	r = make_at(fd, name, made) < 0 ? -errno : 0;
	creds_restore(&request->worker->creds, in->uid, in->gid);
	return r < 0 ? r : reply_entry(session, request, dir, name);
}

int op_mknod(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_mknod_in *in = arg;
	struct made made = { .mode = in->mode & (S_IFMT | ALLPERMS), .umask = in->umask };
	struct node *dir;
	const char *name;
	int fd = changed_dir(session, request, &dir, &name);

	if (fd < 0)
		return fd;
	/* Of devices, only the whiteout of overlayfs, which is none. */
	if ((S_ISCHR(in->mode) && in->rdev) || S_ISBLK(in->mode))
		return -EPERM;
	if (!S_ISREG(in->mode) && !S_ISFIFO(in->mode) && !S_ISSOCK(in->mode) && !S_ISCHR(in->mode))
		return -EINVAL;
	return make(session, request, dir, fd, name, &made);
}

int op_mkdir(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_mkdir_in *in = arg;
	struct made made = { .mode = S_IFDIR | (in->mode & ALLPERMS), .umask = in->umask };
	struct node *dir;
	const char *name;
	int fd = changed_dir(session, request, &dir, &name);

	return fd < 0 ? fd : make(session, request, dir, fd, name, &made);
}

int op_symlink(struct session *session, struct request *request, const void *arg)
{
	struct made made = { 0 };
	struct node *dir;
	const char *name;
	int fd = changed_dir(session, request, &dir, &name);

	if (fd < 0)
		return fd;
	made.umask = request->worker->creds.umask;
	made.target = request_string(request);
	if (!made.target || !*made.target)
		return -EINVAL;
	return make(session, request, dir, fd, name, &made);
}

int op_link(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_link_in *in = arg;
	struct node *node = node_get(&session->nodes, in->oldnodeid), *dir;
	char path[FD_PATH_MAX];
	const char *name;
	int dir_fd = changed_dir(session, request, &dir, &name), fd;

	if (dir_fd < 0)
		return dir_fd;
	if (!node)
		return -ESTALE;
	if (S_ISDIR(node->identity.type))
		return -EPERM;
	if (node->identity.tree != dir->identity.tree)
		return -EXDEV;
	fd = node_fd(&session->nodes, node);
	if (fd < 0)
		return fd;
	/* The link that is followed is the one in /proc, to the very file. */
	if (linkat(AT_FDCWD, fd_path(fd, path), dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return reply_entry(session, request, dir, name);
}

/* The node that the guest knows by this name, opened so that it outlives the name; or NULL. */
static struct node *known_at(struct session *session, struct node *dir, int fd, const char *name)
{
	struct identity identity;
	struct statx stx;
	struct node *node;

	if (statx(fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, NODE_STATX, &stx) < 0)
		return NULL;
	identity = identity_of(&stx, dir->identity.tree);
	node = node_find(&session->nodes, &identity);
	if (!node || !node_is_at(node, dir, name))
		return NULL;
	/* Where it cannot be opened, it is lost to those who have it open; the name goes. */
	(void)node_fd(&session->nodes, node);
	return node;
}

static int remove_name(struct session *session, struct request *request, int flags)
{
	struct node *dir, *node;
	const char *name;
	int fd = changed_dir(session, request, &dir, &name);

	if (fd < 0)
		return fd;
	node = known_at(session, dir, fd, name);
	if (unlinkat(fd, name, flags) < 0)
		return -errno;
	if (node)
		node_unplace(&session->nodes, node);
	return 0;
}

int op_unlink(struct session *session, struct request *request, const void *arg)
{
	return remove_name(session, request, 0);
}

int op_rmdir(struct session *session, struct request *request, const void *arg)
{
	return remove_name(session, request, AT_REMOVEDIR);
}

static void renamed(struct session *session, struct node *moved, struct node *dir, const char *name,
		    struct node *replaced)
{
	if (replaced)
		node_unplace(&session->nodes, replaced);
	if (!moved)
		return;
	node_place(&session->nodes, moved, dir, name);
	changes_know(session, moved);
}

static int rename_at(struct session *session, struct request *request, uint64_t to_id,
		     uint32_t flags)
{
	struct node *from, *to = node_get(&session->nodes, to_id), *moved, *replaced;
	const char *old, *new;
	int from_fd, to_fd, r;

	from_fd = changed_dir(session, request, &from, &old);
	if (from_fd < 0)
		return from_fd;
	if (!to)
		return -ESTALE;
	r = request_name(request, &new);
	if (r < 0)
		return r;
	if (from->identity.tree != to->identity.tree)
		return -EXDEV;
	to_fd = node_fd(&session->nodes, to);
	if (to_fd < 0)
		return to_fd;
	watch_own(&session->watches, to, new);
	moved = known_at(session, from, from_fd, old);
	replaced = known_at(session, to, to_fd, new);
	if (syscall(SYS_renameat2, from_fd, old, to_fd, new, flags) < 0)
		return -errno;
	if (flags & RENAME_EXCHANGE) {
		/* Out of their places first: each takes the other's. */
		if (moved)
			node_unplace(&session->nodes, moved);
		renamed(session, moved, to, new, replaced);
		renamed(session, replaced, from, old, NULL);
	} else if (moved != replaced || !moved) {
		renamed(session, moved, to, new, replaced);
	}
	return 0;
}

int op_rename(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_rename_in *in = arg;

	return rename_at(session, request, in->newdir, 0);
}

int op_rename2(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_rename2_in *in = arg;

	if (in->flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	return rename_at(session, request, in->newdir, in->flags);
}
