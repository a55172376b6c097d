/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attributes: GETATTR, SETATTR, READLINK, STATFS. */
#include "fs/session.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define INODE_BITS  48u
#define DEVICES_MAX 4096u

/* The kernel's 32-bit form of a device number, as fuse_attr.rdev has it. */
static uint32_t encode_device(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

uint64_t inode_number(struct session *session, uint32_t dev, uint64_t ino)
{
	size_t i = 0;

	while (i < session->device_count && session->devices[i] != dev)
		i++;
	/* As many as the host has mounts in the trees; beyond this, numbers may be the same. */
	if (i == session->device_count && i < DEVICES_MAX) {
		session->devices = xrealloc(session->devices, i + 1, sizeof(*session->devices));
		session->devices[session->device_count++] = dev;
	}
	return ino ^ (uint64_t)i << INODE_BITS;
}

void attr_fill(struct session *session, struct fuse_attr *attr, const struct statx *stx)
{
	*attr = (struct fuse_attr){ .ino = inode_number(session, device_number(stx), stx->stx_ino),
				    .size = stx->stx_size,
				    .blocks = stx->stx_blocks,
				    .atime = (uint64_t)stx->stx_atime.tv_sec,
				    .mtime = (uint64_t)stx->stx_mtime.tv_sec,
				    .ctime = (uint64_t)stx->stx_ctime.tv_sec,
				    .atimensec = stx->stx_atime.tv_nsec,
				    .mtimensec = stx->stx_mtime.tv_nsec,
				    .ctimensec = stx->stx_ctime.tv_nsec,
				    .mode = stx->stx_mode,
				    .nlink = stx->stx_nlink,
				    .uid = stx->stx_uid,
				    .gid = stx->stx_gid,
				    .rdev = encode_device(stx->stx_rdev_major, stx->stx_rdev_minor),
				    .blksize = stx->stx_blksize };
}

int node_attr(struct session *session, struct node *node, struct fuse_attr *attr)
{
	struct statx stx;
	int r;

	if (node_is_top(node)) {
		top_attr(session, attr);
		return 0;
	}
	r = node_stat(&session->nodes, node, &stx);
	if (r < 0)
		return r;
	attr_fill(session, attr, &stx);
	return 0;
}

static int reply_attr(struct session *session, struct request *request, struct node *node,
		      const struct handle *handle)
{
	struct fuse_attr_out out = { 0 };
	struct statx stx;
	int r;

	fresh_attr(session, node, &out);
	if (handle && handle->fd >= 0) {
		/* The node itself may be in no place any more: an open file always is. */
		if (statx(handle->fd, "", AT_EMPTY_PATH, NODE_STATX, &stx) < 0)
			return -errno;
		attr_fill(session, &out.attr, &stx);
	} else {
		r = node_attr(session, node, &out.attr);
		if (r < 0)
			return r;
	}
	return reply(request, &out, sizeof(out));
}

int op_getattr(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_getattr_in *in = arg;
	struct node *node = request_node(session, request);
	struct handle *handle = NULL;

	if (!node)
		return -ESTALE;
	if (in->getattr_flags & FUSE_GETATTR_FH) {
		handle = handle_get(&session->handles, in->fh, node, S_ISDIR(node->identity.type));
		if (!handle)
			return -EBADF;
	}
	return reply_attr(session, request, node, handle);
}

static int set_size(struct session *session, struct request *request, struct node *node,
		    const struct handle *handle, const struct fuse_setattr_in *in)
{
	const struct timespec now[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
	int fd = handle ? handle->fd : node_fd(&session->nodes, node);
	char path[FD_PATH_MAX];

	if (in->size > INT64_MAX)
		return -EFBIG;
	if (!S_ISREG(node->identity.type))
		return S_ISDIR(node->identity.type) ? -EISDIR : -EINVAL;
	if (fd < 0)
		return fd;
	creds_keep_set_id(&request->worker->creds,
			  !(in->valid & FATTR_KILL_SUIDGID) &&
				  !(session->agreed & FUSE_HANDLE_KILLPRIV));
	if (truncate(fd_path(fd, path), (off_t)in->size) < 0)
		return -errno;
	/* Unlike truncate(2), ftruncate(2) sets the time also where the size stays. */
	if (handle && utimensat(AT_FDCWD, path, now, 0) < 0)
		return -errno;
	return 0;
}

static int set_owner_and_mode(struct session *session, struct request *request, struct node *node,
			      const struct fuse_setattr_in *in)
{
	char path[FD_PATH_MAX];
	int fd = node_fd(&session->nodes, node);

	if (fd < 0)
		return fd;
	/* The owner first: that takes the set-id bits, which a mode given as well would set. But
	 * for set-group-id without group execution, which stays for one in the group: who is, only
	 * the guest knows, and it gives no privilege. */
	creds_keep_set_id(&request->worker->creds, true);
	if (in->valid & (FATTR_UID | FATTR_GID) &&
	    fchownat(fd, "", in->valid & FATTR_UID ? in->uid : (uid_t)-1,
		     in->valid & FATTR_GID ? in->gid : (gid_t)-1, AT_EMPTY_PATH) < 0)
		return -errno;
	if (!(in->valid & FATTR_MODE))
		return 0;
	if (S_ISLNK(node->identity.type))
		return -EOPNOTSUPP;
	return fchmodat(AT_FDCWD, fd_path(fd, path), in->mode & ALLPERMS, 0) < 0 ? -errno : 0;
}

static struct timespec time_wanted(uint32_t valid, uint32_t given, uint32_t now, uint64_t seconds,
				   uint32_t nanoseconds)
{
	if (valid & now)
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	if (!(valid & given))
		return (struct timespec){ .tv_nsec = UTIME_OMIT };
	return (struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = nanoseconds };
}

static int set_times(struct session *session, struct node *node, const struct fuse_setattr_in *in)
{
	const struct timespec times[2] = {
		time_wanted(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
		time_wanted(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
	};
	int fd = node_fd(&session->nodes, node);

	if (fd < 0)
		return fd;
	return utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int op_setattr(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_setattr_in *in = arg;
	struct node *node = request_node(session, request);
	struct handle *handle = NULL;
	int r;

	if (!node)
		return -ESTALE;
	r = node_writable(session, node);
	watch_own_node(&session->watches, node);
	if (r == 0 && in->valid & FATTR_FH) {
		handle = handle_get(&session->handles, in->fh, node, false);
		r = handle ? 0 : -EBADF;
	}
	if (r == 0 && in->valid & (FATTR_UID | FATTR_GID | FATTR_MODE))
		r = set_owner_and_mode(session, request, node, in);
	if (r == 0 && in->valid & FATTR_SIZE)
		r = set_size(session, request, node, handle, in);
	if (r == 0 && in->valid & (FATTR_ATIME | FATTR_MTIME))
		r = set_times(session, node, in);
	return r < 0 ? r : reply_attr(session, request, node, handle);
}

int op_readlink(struct session *session, struct request *request, const void *arg)
{
	struct node *node = request_node(session, request);
	char target[PATH_MAX];
	ssize_t n;
	int fd;

	if (!node)
		return -ESTALE;
	if (!S_ISLNK(node->identity.type))
		return -EINVAL;
	fd = node_fd(&session->nodes, node);
	if (fd < 0)
		return fd;
	n = readlinkat(fd, "", target, sizeof(target));
	return n < 0 ? -errno : reply(request, target, (size_t)n);
}

int op_statfs(struct session *session, struct request *request, const void *arg)
{
	struct node *node = request_node(session, request);
	struct fuse_statfs_out out = {
		.st = { .bsize = 4096, .frsize = 4096, .namelen = NAME_MAX }
	};
	struct statfs st;
	int fd;

	if (!node)
		return -ESTALE;
	if (!node_is_top(node)) {
		fd = node_fd(&session->nodes, node);
		if (fd < 0)
			return fd;
		if (fstatfs(fd, &st) < 0)
			return -errno;
		out.st.blocks = st.f_blocks;
		out.st.bfree = st.f_bfree;
		out.st.bavail = st.f_bavail;
		out.st.files = st.f_files;
		out.st.ffree = st.f_ffree;
		out.st.bsize = (uint32_t)st.f_bsize;
		out.st.frsize = (uint32_t)st.f_frsize;
		out.st.namelen = (uint32_t)st.f_namelen;
	}
	return reply(request, &out, sizeof(out));
}
