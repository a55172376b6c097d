/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A FUSE session: what one guest kernel and this server agreed on, and the requests between them.
 * It knows neither virtio nor sockets: a request comes as a chain and the answer is put in it.
 */
#pragma once

#include "fs/creds.h"
#include "fs/handle.h"
#include "fs/node.h"
#include "fs/fsd.h"
#include "fs/watch.h"
#include "virtio/virtqueue.h"

#include <limits.h>
#include <pthread.h>

#ifndef FUSE_DIRECT_IO_ALLOW_MMAP /* headers of Linux before 6.6 */
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ull << 36)
#endif

/* A tree: an entry of the top directory. */
struct tree {
	struct node *root; /* a reference; NULL: none of that number */
	uint32_t flags;	   /* enum fs_tree_flags */
};

/* Room for the variable part of a request or for an answer that is made piece by piece. */
#define SESSION_SCRATCH (NAME_MAX + 1 + 65536)

/*
 * What a thread that serves has for itself. It is large, and locals are zeroed: so the buffers of a
 * request are here, too.
 */
struct worker {
	struct creds creds;
	uint8_t *scratch;
	struct chain chain; /* for who takes requests from a queue */
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
};

/*
 * Several threads may serve. A request has the lock for itself, from its beginning to its end, but
 * for the calls that move data or wait for a disk: those are made without it, on descriptors that
 * stay open for them (session_unlock()).
 */
struct session {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t back;  /* fewer requests are away */
	unsigned int away;    /* requests that have let go of the lock */
	struct nodes nodes;
	struct handles handles;
	struct tree *trees; /* FSD_TREES_MAX */
	int proc_fd;	    /* /proc/self/fd; the working directory: see fd_path() */
	bool started;	    /* INIT was answered, and nothing has ended the session since */
	uint64_t agreed;    /* FUSE_ flags of INIT */
	struct timespec made;
	uint32_t *devices; /* of the host, as they were seen: see inode_number() */
	size_t device_count;
	struct watches watches;
	struct changes *changes; /* told.h; NULL: nobody reads */
	bool parked;		 /* a request waits: see session_serve() */
	int wake_fd;		 /* see session_park() */
};

/* One request while it is served. */
struct request {
	struct worker *worker;
	struct chain *chain;
	struct fuse_in_header in;
	const char *text; /* the variable part: strings, an attribute's value; in scratch */
	size_t text_size;
};

/*
 * An operation. arg: its fixed argument, copied. Returns the number of bytes that it wrote behind
 * the header with reply(), or a negative errno for the guest.
 */
typedef int (*operation)(struct session *session, struct request *request, const void *arg);

/*
 * session_new() - in the process that will serve, while /proc is there.
 * @nodes: how many nodes the guest may hold. @fds: how many descriptors may be used.
 * Returns NULL with err set.
 */
struct session *session_new(size_t nodes, size_t fds, struct err *err);
void session_free(struct session *session);
/*
 * session_enter() - make this thread one that serves: its working directory, umask and capabilities
 * become the session's. Where there are several, each has a working directory and a umask of its
 * own already. Fills worker, which worker_free() empties. Returns 0, or -1 with err set.
 */
int session_enter(struct session *session, struct worker *worker, struct err *err);
void worker_free(struct worker *worker);
/* session_reset() - the guest is gone or starts anew: forget what it held. */
void session_reset(struct session *session);

/* session_add_tree() - fd is owned from now on, also on failure. Returns 0, or -1 with err set. */
int session_add_tree(struct session *session, const struct fs_tree_add *add, int fd,
		     struct err *err);

/*
 * session_serve() - serve one request, on the thread that entered with this worker. Returns the
 * bytes written to the chain's writable part; 0 for a request that has no answer; SESSION_PARKED
 * for one that is to wait (there is at most one) until session_has_changes(), then to be served
 * with session_serve_parked().
 */
#define SESSION_PARKED UINT32_MAX
uint32_t session_serve(struct session *session, struct worker *worker, struct chain *chain);
uint32_t session_serve_parked(struct session *session, struct worker *worker, struct chain *chain);

/*
 * session_park() - the eventfd that is written to when session_has_changes() is true, now or later;
 * for one request, until it is served with session_serve_parked(). session_unpark() - the request
 * that waits is forgotten, and the eventfd.
 */
void session_park(struct session *session, int wake_fd);
void session_unpark(struct session *session);

/*
 * session_watch() - session->watches.fd is readable: take in what the host did to shared trees.
 * session_has_changes() - whether a request that waits would get an answer now.
 */
void session_watch(struct session *session);
bool session_has_changes(struct session *session);

/* For operations. */

/* session_wake() - with the lock, when something was done: write to that eventfd if it matters. */
void session_wake(const struct session *session);

#define OPERATION_PARKED INT_MIN /* as their result */

/* reply() - the next bytes of the answer. Returns how many, or -EIO where there is no room. */
int reply(struct request *request, const void *data, size_t size);

/* request_node() - what the request is about, or NULL: answer ESTALE. */
static inline struct node *request_node(struct session *session, const struct request *request)
{
	return node_get(&session->nodes, request->in.nodeid);
}

/* request_string() - the next NUL-terminated string of the variable part, or NULL. */
const char *request_string(struct request *request);
/* request_name() - the same, checked to be one component. Returns 0 or a negative errno. */
int request_name(struct request *request, const char **name);

/*
 * session_unlock() - let others serve while this request waits for the host. From here on it may
 * use what is its own, and the descriptors of handles that it held, until session_lock_again().
 * What it learned of nodes and handles before is old then.
 */
void session_unlock(struct session *session);
void session_lock_again(struct session *session);

/* node_writable() - 0, or -EROFS where the node's tree is read-only or the top directory. */
int node_writable(const struct session *session, const struct node *node);

/* fd_path() - a path that leads to the very file behind fd, through /proc/self/fd. */
#define FD_PATH_MAX 16
const char *fd_path(int fd, char path[FD_PATH_MAX]);

/*
 * How long the guest may believe a name and attributes (fresh.c). fresh_listed() - of a name that
 * READDIRPLUS tells. fresh_none() - that there is none of that name in dir.
 */
void fresh_entry(const struct session *session, const struct node *node,
		 struct fuse_entry_out *out);
void fresh_listed(const struct session *session, const struct node *node,
		  struct fuse_entry_out *out);
void fresh_none(const struct session *session, const struct node *dir, struct fuse_entry_out *out);
void fresh_attr(const struct session *session, const struct node *node, struct fuse_attr_out *out);

/* Attributes as the guest wants them (attr.c). */
void attr_fill(struct session *session, struct fuse_attr *attr, const struct statx *stx);
/*
 * inode_number() - what st_ino the guest sees. All the host's file systems are one st_dev there:
 * the first one seen keeps its numbers, the others' are told apart by their highest bits.
 * @dev: as in struct identity.
 */
uint64_t inode_number(struct session *session, uint32_t dev, uint64_t ino);
int node_attr(struct session *session, struct node *node, struct fuse_attr *attr);

/*
 * entry_fill() - the guest is told of (dir, name), seen as stx: find or make its node, and count a
 * lookup. Returns the node, or NULL where the table is full.
 */
struct node *entry_fill(struct session *session, struct node *dir, const char *name,
			const struct statx *stx, struct fuse_entry_out *out);
/* entry_lookup() - look it up. Returns 0 or a negative errno. */
int entry_lookup(struct session *session, struct node *dir, const char *name,
		 struct fuse_entry_out *out);

/* file_open() - open a regular file or directory, nothing else. Returns fd or negative errno. */
int file_open(struct session *session, struct node *node, int flags);

/* The top directory (tree.c). */
#define TOP_INODE UINT32_MAX /* fits 32 bits, and is hardly another's */
void top_attr(const struct session *session, struct fuse_attr *attr);
int top_lookup(struct session *session, const char *name, struct fuse_entry_out *out);
/* top_next() - the first tree from number *index on. Returns false where there is none. */
bool top_next(const struct session *session, uint64_t *index);

#define OPERATION(name)                                                                            \
	int op_##name(struct session *session, struct request *request, const void *arg)
OPERATION(lookup);
OPERATION(getattr);
OPERATION(setattr);
OPERATION(readlink);
OPERATION(symlink);
OPERATION(mknod);
OPERATION(mkdir);
OPERATION(unlink);
OPERATION(rmdir);
OPERATION(rename);
OPERATION(rename2);
OPERATION(link);
OPERATION(open);
OPERATION(create);
OPERATION(tmpfile);
OPERATION(read);
OPERATION(write);
OPERATION(statfs);
OPERATION(release);
OPERATION(fsync);
OPERATION(fsyncdir);
OPERATION(setxattr);
OPERATION(getxattr);
OPERATION(listxattr);
OPERATION(removexattr);
OPERATION(opendir);
OPERATION(readdir);
OPERATION(readdirplus);
OPERATION(releasedir);
OPERATION(lseek);
OPERATION(fallocate);
OPERATION(copy_file_range);
OPERATION(syncfs);
