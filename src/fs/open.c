/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files opened and closed: OPEN, CREATE, TMPFILE, OPENDIR, RELEASE, RELEASEDIR. */
#include "fs/told.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

/* Of the guest's flags, those that mean something here. O_APPEND comes with each write (io.c),
 * O_DIRECT is about the guest's own cache. */
#define OPEN_FLAGS (O_ACCMODE | O_TRUNC | O_SYNC | O_DSYNC | O_NOATIME)
/* No lease of another process is waited for, no terminal taken. */
#define OPEN_ALWAYS (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

#define FILE_TICK 10000000u /* ns; that of a host with 100 a second */

static int open_errno(void)
{
	return errno == EMFILE ? -ENFILE : -errno;
}

int file_open(struct session *session, struct node *node, int flags)
{
	char path[FD_PATH_MAX];
	int fd;

	/* The type is that of the inode behind the O_PATH descriptor: it cannot change. */
	if (!S_ISREG(node->identity.type) && !S_ISDIR(node->identity.type))
		return -EPERM;
	fd = node_fd(&session->nodes, node);
	if (fd < 0)
		return fd;
	fd = open(fd_path(fd, path), flags | OPEN_ALWAYS);
	return fd < 0 ? open_errno() : fd;
}

static uint64_t nanoseconds(int64_t seconds, uint32_t rest)
{
	return (uint64_t)seconds * 1000000000u + rest;
}

/*
 * Whether the guest's cached pages of the file are still good: nobody changed it since the guest
 * opened it last. (While it is open, AUTO_INVAL_DATA makes the guest look at the times.)
 */
static bool is_unchanged(struct node *node, int fd)
{
	struct timespec now;
	struct statx stx;
	uint64_t mtime;
	bool same;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MTIME | STATX_SIZE, &stx) < 0)
		return false;
	mtime = nanoseconds(stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec);
	same = node->opened_mtime == mtime && node->opened_size == stx.stx_size;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	/* File times move in ticks of the host's: one that may not be over yet tells nothing of
	 * what comes in the rest of it. */
	if (nanoseconds(now.tv_sec, (uint32_t)now.tv_nsec) - mtime < FILE_TICK)
		mtime = 0;
	node->opened_mtime = mtime;
	node->opened_size = stx.stx_size;
	return same;
}

/*
 * Whether the guest's cache has a part in what is read and written by a new handle. Who only writes
 * has no use for it: each write comes here at once either way, and what it left in the cache would
 * be dropped at the next open, as the file has changed. Past the cache it is one copy and a page of
 * memory less for each page written. But all must see the same: next to a handle that has the cache
 * in between there is no other, and next to one that has not neither. Of the latter kind a kernel
 * before Linux 6.6 makes no shared memory map: it gets none.
 */
static enum handle_kind kind_of(const struct session *session, const struct node *node,
				uint32_t flags)
{
	if (!(session->agreed & FUSE_DIRECT_IO_ALLOW_MMAP))
		return HANDLE_CACHED;
	if (node->open_direct || ((flags & O_ACCMODE) == O_WRONLY && !node->open_cached))
		return HANDLE_DIRECT;
	return HANDLE_CACHED;
}

/* What the guest is told of a file that was opened; fd is owned from now on. */
static void file_opened(struct session *session, struct node *node, int fd, uint32_t flags,
			struct fuse_open_out *out)
{
	enum handle_kind kind = kind_of(session, node, flags);

	if (kind == HANDLE_DIRECT)
		out->open_flags |= FOPEN_DIRECT_IO;
	/* Who only reads has written nothing: no close is to wait for what others have. */
	if ((flags & O_ACCMODE) == O_RDONLY)
		out->open_flags |= FOPEN_NOFLUSH;
	out->fh = handle_add(&session->handles, node, fd, kind);
}

static int check_flags(const struct session *session, const struct node *node, uint32_t flags)
{
	if ((flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_TRUNC | O_CREAT))
		return node_writable(session, node);
	return 0;
}

int op_open(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_open_in *in = arg;
	struct node *node = request_node(session, request);
	struct fuse_open_out out = { 0 };
	int fd, r;

	if (!node)
		return -ESTALE;
	r = check_flags(session, node, in->flags & ~(uint32_t)O_CREAT);
	if (r < 0)
		return r;
	if (!S_ISREG(node->identity.type))
		return S_ISDIR(node->identity.type) ? -EISDIR : -EPERM;
	if (!handles_room(&session->handles))
		return -ENFILE;
	if (in->flags & O_TRUNC)
		watch_own_node(&session->watches, node);
	if (in->flags & O_TRUNC)
		creds_keep_set_id(&request->worker->creds,
				  !(in->open_flags & FUSE_OPEN_KILL_SUIDGID) &&
					  !(session->agreed & FUSE_HANDLE_KILLPRIV));
	fd = file_open(session, node, (int)(in->flags & OPEN_FLAGS));
	if (fd < 0)
		return fd;
	if (is_unchanged(node, fd))
		out.open_flags |= FOPEN_KEEP_CACHE;
	file_opened(session, node, fd, in->flags, &out);
	return reply(request, &out, sizeof(out));
}

/* Creates as the guest's user. O_EXCL always: what is there already is never opened this way. */
static int create_at(struct request *request, int dir, const char *name, int flags,
		     const struct fuse_create_in *in)
{
	const struct fuse_in_header *header = &request->in;
	int fd, r;

	creds_umask(&request->worker->creds, in->umask);
	r = creds_become(&request->worker->creds, header->uid, header->gid);
	if (r < 0)
		return r;
	fd = openat(dir, name,
		    flags | ((int)in->flags & (OPEN_FLAGS & ~O_TRUNC)) | O_NOFOLLOW | OPEN_ALWAYS,
		    in->mode & ALLPERMS);
	r = fd < 0 ? open_errno() : fd;
	creds_restore(&request->worker->creds, header->uid, header->gid);
	return r;
}

/* Whether this directory may get a new file and the tables one more of each; then it is opened. */
static int creatable(struct session *session, struct node *dir, const struct fuse_create_in *in)
{
	int r;

	if (!dir)
		return -ESTALE;
	r = check_flags(session, dir, in->flags | O_CREAT);
	if (r < 0)
		return r;
	if (!handles_room(&session->handles) || session->nodes.count >= session->nodes.max)
		return -ENFILE;
	return node_fd(&session->nodes, dir);
}

static int reply_created(struct session *session, struct request *request, struct node *node,
			 int fd, uint32_t flags, const struct fuse_entry_out *entry)
{
	struct fuse_open_out out = { 0 };
	int first, second;

	file_opened(session, node, fd, flags, &out);
	first = reply(request, entry, sizeof(*entry));
	second = reply(request, &out, sizeof(out));

	return first < 0 || second < 0 ? -EIO : first + second;
}

int op_create(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_create_in *in = arg;
	struct node *dir = request_node(session, request), *node;
	struct fuse_entry_out entry;
	_cleanup_fd_ int fd = -1;
	struct statx stx;
	const char *name;
	int dir_fd = creatable(session, dir, in), r;

	if (dir_fd < 0)
		return dir_fd;
	r = request_name(request, &name);
	if (r < 0)
		return r;
	watch_own(&session->watches, dir, name);
	fd = create_at(request, dir_fd, name, O_CREAT | O_EXCL, in);
	/* It appeared since the guest looked: ESTALE makes it look again, and check permissions. */
	if (fd < 0)
		return fd == -EEXIST && !(in->flags & O_EXCL) ? -ESTALE : fd;
	if (statx(fd, "", AT_EMPTY_PATH, NODE_STATX, &stx) < 0)
		return -errno;
	node = entry_fill(session, dir, name, &stx, &entry);
	if (!node)
		return -ENFILE;
	return reply_created(session, request, node, fd_steal(&fd), in->flags, &entry);
}

int op_tmpfile(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_create_in *in = arg;
	struct node *dir = request_node(session, request), *node;
	struct fuse_entry_out entry = { 0 };
	_cleanup_fd_ int fd = -1, path_fd = -1;
	struct identity identity;
	char path[FD_PATH_MAX];
	struct statx stx;
	int dir_fd = creatable(session, dir, in);

	if (dir_fd < 0)
		return dir_fd;
	if (session->nodes.pinned >= session->nodes.pinned_max)
		return -ENFILE;
	fd = create_at(request, dir_fd, ".", O_TMPFILE | ((int)in->flags & O_EXCL), in);
	if (fd < 0)
		return fd;
	/* It has no name to be found by again: the node keeps a descriptor. */
	path_fd = open(fd_path(fd, path), O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return open_errno();
	if (statx(fd, "", AT_EMPTY_PATH, NODE_STATX, &stx) < 0)
		return -errno;
	identity = identity_of(&stx, dir->identity.tree);
	node = node_find(&session->nodes, &identity);
	if (!node)
		node = node_add(&session->nodes, &identity);
	if (!node)
		return -ENFILE;
	node->lookups++;
	node_unplace(&session->nodes, node);
	node_give_fd(&session->nodes, node, fd_steal(&path_fd));
	entry.nodeid = node_id(node);
	entry.generation = node->generation;
	fresh_entry(session, node, &entry);
	attr_fill(session, &entry.attr, &stx);
	return reply_created(session, request, node, fd_steal(&fd), in->flags, &entry);
}

int op_opendir(struct session *session, struct request *request, const void *arg)
{
	struct node *node = request_node(session, request);
	struct fuse_open_out out = { 0 };
	int fd = -1;

	if (!node)
		return -ESTALE;
	if (!S_ISDIR(node->identity.type))
		return -ENOTDIR;
	if (!handles_room(&session->handles))
		return -ENFILE;
	if (!node_is_top(node)) {
		fd = file_open(session, node, O_RDONLY | O_DIRECTORY);
		if (fd < 0)
			return fd;
		changes_see(session, node);
	}
	out.fh = handle_add(&session->handles, node, fd, HANDLE_DIRECTORY);
	return reply(request, &out, sizeof(out));
}

static int release(struct session *session, struct request *request, const void *arg,
		   bool directory)
{
	const struct fuse_release_in *in = arg;
	struct handle *handle;

	/* Linux gives nothing back that it still uses; another guest may, and then waits for it. */
	while ((handle = handle_get(&session->handles, in->fh, request_node(session, request),
				    directory)) &&
	       handle->users)
		pthread_cond_wait(&session->back, &session->lock);
	if (!handle)
		return -EBADF;
	if (!directory && handle->fd >= 0)
		watch_own_node(&session->watches, handle->node);
	handle_close(&session->handles, &session->nodes, handle);
	return 0;
}

int op_release(struct session *session, struct request *request, const void *arg)
{
	return release(session, request, arg, false);
}

int op_releasedir(struct session *session, struct request *request, const void *arg)
{
	return release(session, request, arg, true);
}
