/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The session: INIT, and the table through which every request goes. The header and the fixed
 * argument of a request are copied out of guest memory before anything looks at them.
 */
#include "fs/session.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fs/procfs.h"
#include "fs/told.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MINOR_MIN    31u /* the first with virtio-fs */
#define MAX_PAGES    256u
#define MAX_WRITE    (MAX_PAGES * 4096u)
#define ARGUMENT_MAX 128u
#define BACKGROUND   64u

/* Locks are not among them: they stay the guest kernel's. Nor is WRITEBACK_CACHE: what is written
 * reaches the host's file at once. Nor is SUBMOUNTS: in a submount Linux has no ACLs (to 6.12 at
 * least); inode_number() tells the host's file systems apart instead. */
#define FEATURES                                                                                   \
	((uint64_t)(FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC | FUSE_DONT_MASK |     \
		    FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |           \
		    FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_POSIX_ACL | FUSE_MAX_PAGES |      \
		    FUSE_CACHE_SYMLINKS | FUSE_HANDLE_KILLPRIV | FUSE_HANDLE_KILLPRIV_V2 |         \
		    FUSE_SETXATTR_EXT | FUSE_INIT_EXT) |                                           \
	 FUSE_DIRECT_IO_ALLOW_MMAP)

struct session *session_new(size_t nodes, size_t fds, struct err *err)
{
	struct session *session = xcalloc(1, sizeof(*session));

	session->proc_fd = procfs_open_fds(err);
	if (session->proc_fd < 0) {
		free(session);
		return NULL;
	}
	nodes_init(&session->nodes, nodes, fds / 2);
	handles_init(&session->handles, (uint32_t)(fds / 2));
	pthread_mutex_init(&session->lock, NULL);
	pthread_cond_init(&session->back, NULL);
	session->trees = xcalloc(FSD_TREES_MAX, sizeof(*session->trees));
	session->wake_fd = -1;
	session->watches = (struct watches){ .fd = -1, .event = changes_gather, .data = session };
	session->nodes.watches = &session->watches;
	clock_gettime(CLOCK_REALTIME, &session->made);
	return session;
}

void session_free(struct session *session)
{
	if (!session)
		return;
	changes_stop(session);
	watches_close(&session->watches);
	handles_close_all(&session->handles, &session->nodes);
	nodes_free(&session->nodes);
	fd_replace(&session->proc_fd, -1);
	free(session->trees);
	free(session->devices);
	pthread_mutex_destroy(&session->lock);
	pthread_cond_destroy(&session->back);
	free(session);
}

int session_enter(struct session *session, struct worker *worker, struct err *err)
{
	/* Extended attributes and links of a file known by O_PATH go by a path relative to here:
	 * there is no form of those calls with a directory descriptor. */
	if (fchdir(session->proc_fd) < 0)
		return err_set(err, errno, "enter /proc/self/fd");
	if (creds_init(&worker->creds) < 0)
		return err_set(err, errno, "read this process's capabilities");
	worker->scratch = xcalloc(1, SESSION_SCRATCH);
	return 0;
}

void worker_free(struct worker *worker)
{
	free(worker->scratch);
	worker->scratch = NULL;
}

void session_unlock(struct session *session)
{
	session->away++;
	pthread_mutex_unlock(&session->lock);
}

void session_lock_again(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	session->away--;
	pthread_cond_broadcast(&session->back);
}

/*
 * With the lock. Those that are away use handles, which are about to be closed. While they are
 * waited for others are refused: a guest could have one away at any time.
 */
static void forget_all(struct session *session)
{
	session->started = false;
	while (session->away) {
		pthread_cond_wait(&session->back, &session->lock);
		session->started = false; /* another one may have waited, too, and begun anew */
	}
	changes_stop(session);
	handles_close_all(&session->handles, &session->nodes);
	nodes_forget_all(&session->nodes);
	session->agreed = 0;
}

void session_reset(struct session *session)
{
	pthread_mutex_lock(&session->lock);
	forget_all(session);
	pthread_mutex_unlock(&session->lock);
}

const char *fd_path(int fd, char path[FD_PATH_MAX])
{
	snprintf(path, FD_PATH_MAX, "%d", fd);
	return path;
}

int reply(struct request *request, const void *data, size_t size)
{
	return chain_write(request->chain, data, size) == size ? (int)size : -EIO;
}

const char *request_string(struct request *request)
{
	const char *text = request->text;
	size_t length = strnlen(text, request->text_size);

	if (length == request->text_size)
		return NULL;
	request->text += length + 1;
	request->text_size -= length + 1;
	return text;
}

int request_name(struct request *request, const char **name)
{
	const char *text = request_string(request);

	if (!text || !*text || strchr(text, '/') || strcmp(text, ".") == 0 ||
	    strcmp(text, "..") == 0)
		return -EINVAL;
	if (strlen(text) > NAME_MAX)
		return -ENAMETOOLONG;
	*name = text;
	return 0;
}

/* The answer to INIT (linux/fuse.h); a guest that starts again has forgotten all it knew. */
static int op_init(struct session *session, struct request *request, const void *arg)
{
	struct fuse_init_in in = { 0 };
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION };
	uint64_t offered;

	/* The part that came with INIT_EXT is not there in older kernels' requests. */
	memcpy(&in, arg, offsetof(struct fuse_init_in, flags2));
	memcpy(&in.flags2, request->text,
	       request->text_size < sizeof(in.flags2) ? 0 : sizeof(in.flags2));
	forget_all(session);
	if (in.major > FUSE_KERNEL_VERSION) /* it will ask again for ours */
		return reply(request, &out, sizeof(out));
	if (in.major < FUSE_KERNEL_VERSION || in.minor < MINOR_MIN)
		return -EPROTO;
	offered = in.flags;
	if (in.flags & FUSE_INIT_EXT)
		offered |= (uint64_t)in.flags2 << 32;
	session->agreed = offered & FEATURES;
	if (session->agreed & FUSE_HANDLE_KILLPRIV_V2) /* the kinder rule of the two */
		session->agreed &= ~(uint64_t)FUSE_HANDLE_KILLPRIV;
	out.max_readahead = in.max_readahead < MAX_WRITE ? in.max_readahead : MAX_WRITE;
	out.flags = (uint32_t)session->agreed;
	out.flags2 = (uint32_t)(session->agreed >> 32);
	out.max_background = BACKGROUND;
	out.congestion_threshold = BACKGROUND * 3 / 4;
	out.max_write = MAX_WRITE;
	out.max_pages = MAX_PAGES;
	out.time_gran = 1;
	session->started = true;
	return reply(request, &out, sizeof(out));
}

static int op_destroy(struct session *session, struct request *request, const void *arg)
{
	forget_all(session);
	return 0;
}

static int op_forget(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_forget_in *in = arg;
	struct node *node = request_node(session, request);

	if (node)
		node_forget(&session->nodes, node, in->nlookup);
	return 0;
}

static int op_batch_forget(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_batch_forget_in *in = arg;
	struct fuse_forget_one one;

	/* Ends with the count or with the bytes, whichever is first. */
	for (uint32_t i = 0;
	     i < in->count && chain_read(request->chain, &one, sizeof(one)) == sizeof(one); i++) {
		struct node *node = node_get(&session->nodes, one.nodeid);

		if (node)
			node_forget(&session->nodes, node, one.nlookup);
	}
	return 0;
}

/* Nothing that a request does here can be interrupted: it ends soon by itself. */
static int op_interrupt(struct session *session, struct request *request, const void *arg)
{
	return 0;
}

/* The guest kernel checks permissions (default_permissions) and does not ask. */
static int op_access(struct session *session, struct request *request, const void *arg)
{
	return request_node(session, request) ? 0 : -ESTALE;
}

enum {
	NO_ANSWER = 1 << 0,
	EARLY = 1 << 1, /* allowed before INIT */
	DATA = 1 << 2,	/* what follows the argument is not copied: the operation reads it */
};

static const struct {
	operation serve;
	uint16_t argument; /* bytes */
	uint16_t flags;
} operations[] = {
	[FUSE_LOOKUP] = { op_lookup, 0, 0 },
	[FUSE_FORGET] = { op_forget, sizeof(struct fuse_forget_in), NO_ANSWER },
	[FUSE_GETATTR] = { op_getattr, sizeof(struct fuse_getattr_in), 0 },
	[FUSE_SETATTR] = { op_setattr, sizeof(struct fuse_setattr_in), 0 },
	[FUSE_READLINK] = { op_readlink, 0, 0 },
	[FUSE_SYMLINK] = { op_symlink, 0, 0 },
	[FUSE_MKNOD] = { op_mknod, sizeof(struct fuse_mknod_in), 0 },
	[FUSE_MKDIR] = { op_mkdir, sizeof(struct fuse_mkdir_in), 0 },
	[FUSE_UNLINK] = { op_unlink, 0, 0 },
	[FUSE_RMDIR] = { op_rmdir, 0, 0 },
	[FUSE_RENAME] = { op_rename, sizeof(struct fuse_rename_in), 0 },
	[FUSE_LINK] = { op_link, sizeof(struct fuse_link_in), 0 },
	[FUSE_OPEN] = { op_open, sizeof(struct fuse_open_in), 0 },
	[FUSE_READ] = { op_read, sizeof(struct fuse_read_in), 0 },
	[FUSE_WRITE] = { op_write, sizeof(struct fuse_write_in), DATA },
	[FUSE_STATFS] = { op_statfs, 0, 0 },
	[FUSE_RELEASE] = { op_release, sizeof(struct fuse_release_in), 0 },
	[FUSE_FSYNC] = { op_fsync, sizeof(struct fuse_fsync_in), 0 },
	[FUSE_SETXATTR] = { op_setxattr, FUSE_COMPAT_SETXATTR_IN_SIZE, 0 },
	[FUSE_GETXATTR] = { op_getxattr, sizeof(struct fuse_getxattr_in), 0 },
	[FUSE_LISTXATTR] = { op_listxattr, sizeof(struct fuse_getxattr_in), 0 },
	[FUSE_REMOVEXATTR] = { op_removexattr, 0, 0 },
	/* FLUSH is left out: nothing is written late, and after ENOSYS the guest asks no more. */
	[FUSE_INIT] = { op_init, offsetof(struct fuse_init_in, flags2), EARLY },
	[FUSE_OPENDIR] = { op_opendir, sizeof(struct fuse_open_in), 0 },
	[FUSE_READDIR] = { op_readdir, sizeof(struct fuse_read_in), 0 },
	[FUSE_RELEASEDIR] = { op_releasedir, sizeof(struct fuse_release_in), 0 },
	[FUSE_FSYNCDIR] = { op_fsyncdir, sizeof(struct fuse_fsync_in), 0 },
	[FUSE_ACCESS] = { op_access, sizeof(struct fuse_access_in), 0 },
	[FUSE_CREATE] = { op_create, sizeof(struct fuse_create_in), 0 },
	[FUSE_INTERRUPT] = { op_interrupt, sizeof(struct fuse_interrupt_in), NO_ANSWER },
	[FUSE_DESTROY] = { op_destroy, 0, EARLY },
	[FUSE_BATCH_FORGET] = { op_batch_forget, sizeof(struct fuse_batch_forget_in),
				NO_ANSWER | DATA },
	[FUSE_FALLOCATE] = { op_fallocate, sizeof(struct fuse_fallocate_in), 0 },
	[FUSE_READDIRPLUS] = { op_readdirplus, sizeof(struct fuse_read_in), 0 },
	[FUSE_RENAME2] = { op_rename2, sizeof(struct fuse_rename2_in), 0 },
	[FUSE_LSEEK] = { op_lseek, sizeof(struct fuse_lseek_in), 0 },
	[FUSE_COPY_FILE_RANGE] = { op_copy_file_range, sizeof(struct fuse_copy_file_range_in), 0 },
	[FUSE_SYNCFS] = { op_syncfs, sizeof(struct fuse_syncfs_in), 0 },
	[FUSE_TMPFILE] = { op_tmpfile, sizeof(struct fuse_create_in), 0 },
};

/* Copies the argument and what follows it, and lets the operation serve. */
static int serve(struct session *session, struct request *request)
{
	uint64_t arg[ARGUMENT_MAX / sizeof(uint64_t)] = { 0 };
	size_t size, rest = request->in.len - sizeof(request->in);
	uint32_t opcode = request->in.opcode;
	int r;

	if (opcode >= ARRAY_LEN(operations) || !operations[opcode].serve)
		return -ENOSYS;
	size = operations[opcode].argument;
	if (!session->started && !(operations[opcode].flags & EARLY))
		return -EIO;
	if (rest < size || request->in.total_extlen) /* no extension was agreed on */
		return -EINVAL;
	chain_read(request->chain, arg, size);
	rest -= size;
	if (!(operations[opcode].flags & DATA)) {
		if (rest > SESSION_SCRATCH)
			return -E2BIG;
		chain_read(request->chain, request->worker->scratch, rest);
	}
	request->text = (const char *)request->worker->scratch;
	request->text_size = rest;
	if (request->in.nodeid == CHANGES_NODE)
		return changes_serve(session, request, arg);
	if (told_serve(session, request, &r))
		return r;
	return operations[opcode].serve(session, request, arg);
}

/* What the guest did itself is not told to it: those that are away are not done yet. */
static void finish(struct session *session, int result)
{
	if (session->watches.own_count)
		changes_take(session);
	if (!session->away)
		session->watches.own_count = 0;
	if (result != OPERATION_PARKED)
		session_wake(session);
}

uint32_t session_serve(struct session *session, struct worker *worker, struct chain *chain)
{
	struct request request = { .worker = worker, .chain = chain };
	struct fuse_out_header out = { 0 };
	bool silent;
	int r;

	if (chain_read(chain, &request.in, sizeof(request.in)) != sizeof(request.in))
		return 0;
	silent = request.in.opcode < ARRAY_LEN(operations) &&
		 operations[request.in.opcode].flags & NO_ANSWER;
	if (!silent && chain->writable_size < sizeof(out))
		return 0;
	chain->write_done = sizeof(out); /* the header comes last */
	pthread_mutex_lock(&session->lock);
	session->nodes.request++;
	r = request.in.len == chain->readable_size ? serve(session, &request) : -EINVAL;
	finish(session, r);
	pthread_mutex_unlock(&session->lock);
	if (silent)
		return 0;
	if (r == OPERATION_PARKED)
		return SESSION_PARKED;
	out.unique = request.in.unique;
	out.error = r < 0 ? r : 0;
	out.len = (uint32_t)sizeof(out) + (r < 0 ? 0 : (uint32_t)r);
	chain->write_done = 0;
	chain_write(chain, &out, sizeof(out));
	return out.len;
}
