/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data: READ, WRITE, FSYNC, LSEEK, FALLOCATE, COPY_FILE_RANGE, SYNCFS. Bytes go straight between
 * guest memory and the file.
 */
#include "fs/session.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/uio.h>

#define COPY_MAX (64u << 20) /* bytes a request: the others wait meanwhile */

static struct handle *file_handle(struct session *session, uint64_t fh, uint64_t node_number)
{
	return handle_get(&session->handles, fh, node_get(&session->nodes, node_number), false);
}

/*
 * file_leave() - let go of the session for calls on what is open here; place is for file_return(),
 * after which no handle is what it was. Returns the descriptor.
 */
static int file_leave(struct session *session, struct handle *handle, uint32_t *place)
{
	int fd = handle->fd;

	*place = handle_hold(&session->handles, handle);
	session_unlock(session);
	return fd;
}

static void file_return(struct session *session, uint32_t place)
{
	session_lock_again(session);
	handle_let_go(&session->handles, place);
}

/*
 * Cuts a list of buffers to size bytes; returns how many remain. *size: less where they hold less.
 */
static int cut(struct iovec *iov, size_t count, size_t *size)
{
	size_t left = *size, used = 0;

	while (used < count && left) {
		if (iov[used].iov_len > left)
			iov[used].iov_len = left;
		left -= iov[used].iov_len;
		used++;
	}
	*size -= left;
	return (int)used;
}

int op_read(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_read_in *in = arg;
	struct handle *handle = file_handle(session, in->fh, request->in.nodeid);
	struct iovec *iov = request->worker->iov;
	size_t size = in->size;
	uint32_t place;
	ssize_t n;
	int count, fd;

	if (!handle)
		return -EBADF;
	if (in->offset > INT64_MAX)
		return -EINVAL;
	count = cut(iov, chain_rest_writable(request->chain, iov), &size);
	fd = file_leave(session, handle, &place);
	n = preadv2(fd, iov, count, (off_t)in->offset, 0);
	n = n < 0 ? -errno : n;
	file_return(session, place);
	return (int)n;
}

/*
 * Flags of one write. Pages written back go where they belong; of other writes to a file opened so,
 * the end is where the host says it is. What is to be on the disk before the write returns, as
 * pwritev2(2) may ask for each, the guest asks FSYNC for only where its cache has a part in it.
 */
static int write_flags(const struct handle *handle, const struct fuse_write_in *in)
{
	int flags = 0;

	if (in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE))
		flags |= RWF_APPEND;
	if (handle->kind == HANDLE_DIRECT && in->flags & O_DSYNC)
		flags |= in->flags & (O_SYNC & ~O_DSYNC) ? RWF_SYNC : RWF_DSYNC;
	return flags;
}

int op_write(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_write_in *in = arg;
	struct handle *handle = file_handle(session, in->fh, request->in.nodeid);
	struct iovec *iov = request->worker->iov;
	struct fuse_write_out out = { 0 };
	size_t size = in->size;
	int count, flags, fd;
	uint32_t place;
	ssize_t n;

	if (!handle)
		return -EBADF;
	if (in->offset > INT64_MAX || in->size != request->text_size)
		return -EINVAL;
	creds_keep_set_id(&request->worker->creds,
			  !(in->write_flags & FUSE_WRITE_KILL_SUIDGID) &&
				  !(session->agreed & FUSE_HANDLE_KILLPRIV));
	watch_own_node(&session->watches, handle->node);
	count = cut(iov, chain_rest_readable(request->chain, iov), &size);
	flags = write_flags(handle, in);
	fd = file_leave(session, handle, &place);
	n = pwritev2(fd, iov, count, (off_t)in->offset, flags);
	n = n < 0 ? -errno : n;
	file_return(session, place);
	if (n < 0)
		return (int)n;
	out.size = (uint32_t)n;
	return reply(request, &out, sizeof(out));
}

/*
 * fdatasync(2) becomes fsync(2), which does more: it is one call less that the filter lets through.
 */
static int sync_handle(struct session *session, struct handle *handle)
{
	uint32_t place;
	int fd, r;

	if (!handle)
		return -EBADF;
	if (handle->fd < 0) /* the top directory */
		return 0;
	fd = file_leave(session, handle, &place);
	r = fsync(fd) < 0 ? -errno : 0;
	file_return(session, place);
	return r;
}

int op_fsync(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_fsync_in *in = arg;

	return sync_handle(session, file_handle(session, in->fh, request->in.nodeid));
}

int op_fsyncdir(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_fsync_in *in = arg;

	return sync_handle(session, handle_get(&session->handles, in->fh,
					       request_node(session, request), true));
}

int op_lseek(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_lseek_in *in = arg;
	struct handle *handle = file_handle(session, in->fh, request->in.nodeid);
	struct fuse_lseek_out out;
	off_t offset;

	if (!handle)
		return -EBADF;
	if ((in->whence != SEEK_DATA && in->whence != SEEK_HOLE) || in->offset > INT64_MAX)
		return -EINVAL;
	offset = lseek(handle->fd, (off_t)in->offset, (int)in->whence);
	if (offset < 0)
		return -errno;
	out.offset = (uint64_t)offset;
	return reply(request, &out, sizeof(out));
}

int op_fallocate(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_fallocate_in *in = arg;
	struct handle *handle = file_handle(session, in->fh, request->in.nodeid);
	uint32_t place;
	int fd, r;

	if (!handle)
		return -EBADF;
	if (in->mode &
	    ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if (in->offset > INT64_MAX || in->length > INT64_MAX)
		return -EINVAL;
	creds_keep_set_id(&request->worker->creds, request->in.uid == 0);
	watch_own_node(&session->watches, handle->node);
	fd = file_leave(session, handle, &place);
	r = fallocate(fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) < 0 ? -errno : 0;
	file_return(session, place);
	return r;
}

int op_copy_file_range(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_copy_file_range_in *in = arg;
	struct handle *from = file_handle(session, in->fh_in, request->in.nodeid);
	struct handle *to = file_handle(session, in->fh_out, in->nodeid_out);
	off_t from_offset = (off_t)in->off_in, to_offset = (off_t)in->off_out;
	struct fuse_write_out out = { 0 };
	uint32_t from_place, to_place;
	int from_fd, to_fd;
	ssize_t n;

	if (!from || !to)
		return -EBADF;
	if (in->off_in > INT64_MAX || in->off_out > INT64_MAX || in->flags)
		return -EINVAL;
	creds_keep_set_id(&request->worker->creds, request->in.uid == 0);
	watch_own_node(&session->watches, to->node);
	to_fd = to->fd;
	to_place = handle_hold(&session->handles, to);
	from_fd = file_leave(session, from, &from_place);
	n = copy_file_range(from_fd, &from_offset, to_fd, &to_offset,
			    in->len < COPY_MAX ? (size_t)in->len : COPY_MAX, 0);
	n = n < 0 ? -errno : n;
	file_return(session, from_place);
	handle_let_go(&session->handles, to_place);
	if (n < 0)
		return (int)n;
	out.size = (uint32_t)n;
	return reply(request, &out, sizeof(out));
}

static int sync_tree(struct session *session, struct node *node)
{
	_cleanup_fd_ int fd = -1;
	int r;

	if (node_writable(session, node) < 0)
		return 0;
	fd = file_open(session, node, O_RDONLY);
	if (fd < 0)
		return fd;
	session_unlock(session);
	r = syncfs(fd) < 0 ? -errno : 0;
	session_lock_again(session);
	return r;
}

int op_syncfs(struct session *session, struct request *request, const void *arg)
{
	struct node *node = request_node(session, request);
	int r, first = 0;

	if (!node)
		return -ESTALE;
	if (request->in.gid == FSD_END_GID && request->in.pid == FSD_END_PID)
		return 0;
	if (!node_is_top(node))
		return sync_tree(session, node);
	for (uint64_t i = 0; top_next(session, &i); i++) {
		r = sync_tree(session, session->trees[i].root);
		if (r < 0 && !first)
			first = r;
	}
	return first;
}
