/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node table: what the guest calls a node id is one of these. A node is an inode of the host
 * as seen through one tree and one mount, and remembers where it was last found (its parent node
 * and a name there), so that it needs a descriptor only while it is in use.
 */
#pragma once

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define NODE_TREE_NONE UINT16_MAX /* of the top directory, which is in no tree */

/* What makes two nodes the same. */
struct identity {
	uint64_t ino;
	uint64_t mount; /* STATX_MNT_ID: a bind mount inside a tree is a place of its own */
	uint64_t birth; /* symlinks only, in ns: the guest caches their text, numbers are reused */
	uint32_t dev;
	uint16_t tree;
	uint16_t type; /* the S_IFMT bits of the mode */
};

struct node {
	struct identity identity;
	uint64_t lookups;    /* how many times the guest was given it and did not forget it */
	uint32_t references; /* by child nodes, by open handles, by a tree for its root */
	uint32_t index;	     /* of the table */
	uint32_t generation; /* of this index: an old id of a reused index is not found */
	uint32_t held;	     /* the number of the request that uses fd now */
	int fd;		     /* O_PATH, or -1 */
	struct node *parent; /* a reference; NULL: in no known place, reachable by fd alone */
	char *name;	     /* in parent */
	struct node *next;   /* of the same hash, or the next free one */
	union {
		struct node *newer; /* those with both fd and parent, by last use */
		struct node *below; /* one without fd, in node_fd(): on the way to the node */
	};
	struct node *older;		    /* as newer */
	struct node *next_watch;	    /* see watch.c */
	int watch;			    /* its descriptor, or 0 */
	uint64_t opened_mtime, opened_size; /* at the last open, see open.c */
	uint32_t open_cached, open_direct;  /* handles, by kind */
};

struct nodes {
	struct node **chunks; /* NODE_CHUNK nodes each; a node never moves */
	size_t chunk_count;
	struct node **hash;
	size_t hash_size; /* a power of two */
	struct node *free;
	size_t count, max;

	struct node *newest, *oldest; /* see locate.c */
	size_t cached, cached_max;    /* descriptors of nodes with a place: can be closed */
	size_t pinned, pinned_max;    /* descriptors of nodes without one: cannot */
	uint32_t request;	      /* number of the request being served */
	struct watches *watches;      /* what is told that a node goes; the caller's */
};

/* nodes_init() - an empty table for at most max nodes, the top directory (FUSE_ROOT_ID) in it. */
void nodes_init(struct nodes *nodes, size_t max, size_t fds);
void nodes_free(struct nodes *nodes);

/* node_id(), node_get() - a node to the guest's number for it; NULL where it was not given out. */
uint64_t node_id(const struct node *node);
struct node *node_get(struct nodes *nodes, uint64_t id);
bool node_is_top(const struct node *node);

struct node *node_find(struct nodes *nodes, const struct identity *identity);

/*
 * node_add() - a new node, in no place, with no descriptor and no lookup: the caller counts one
 * or takes a reference, else it stays for ever. Returns NULL where the table is full.
 */
struct node *node_add(struct nodes *nodes, const struct identity *identity);

void node_reference(struct node *node);
/* node_release() - drop a reference; the node is gone when nothing else holds it. */
void node_release(struct nodes *nodes, struct node *node);
/* node_forget() - the guest drops `lookups` of its own; more than there are is as many. */
void node_forget(struct nodes *nodes, struct node *node, uint64_t lookups);
/* nodes_next() - the first one that the guest knows from index *at on; *at moves behind it. */
struct node *nodes_next(struct nodes *nodes, uint32_t *at);
/* nodes_forget_all() - the guest is gone: only what others reference stays. */
void nodes_forget_all(struct nodes *nodes);

/* identity_of() - from statx(2) with NODE_STATX. */
static inline uint32_t device_number(const struct statx *stx)
{
	return stx->stx_dev_major << 20 | stx->stx_dev_minor;
}
#define NODE_STATX (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID)
struct identity identity_of(const struct statx *stx, uint16_t tree);
bool identity_equal(const struct identity *a, const struct identity *b);

/*
 * Where nodes are (locate.c). These return a descriptor or 0, or a negative errno for the guest:
 * ESTALE where the host moved or removed the node, whereupon the guest looks its name up again.
 */

/*
 * node_fd() - an O_PATH descriptor of the node, valid until the request has been served.
 * The top directory has none: EPERM. Nor has what is in a procfs: EACCES.
 */
int node_fd(struct nodes *nodes, struct node *node);

/*
 * node_check_mount() - EACCES for a descriptor of a procfs, wherever in a tree that is mounted:
 * this process would be in it, too, with its files and memory. Its mount point can be looked at and
 * mounted over in the guest, as no descriptor of it is needed for that.
 */
int node_check_mount(int fd);

/* node_stat() - its attributes. */
int node_stat(struct nodes *nodes, struct node *node, struct statx *stx);

/* node_place() - it was seen under this name. */
void node_place(struct nodes *nodes, struct node *node, struct node *parent, const char *name);

/* node_is_at() - whether that is the place that is remembered. */
bool node_is_at(const struct node *node, const struct node *parent, const char *name);

/*
 * node_unplace() - its place is gone. It lives on by the descriptor that node_fd() opened before,
 * if there was one and not too many others do so.
 */
void node_unplace(struct nodes *nodes, struct node *node);

/* node_give_fd() - an O_PATH descriptor for a node in no place, owned from now on. */
void node_give_fd(struct nodes *nodes, struct node *node, int fd);
/* node_drop_fd() - close its descriptor, if any. */
void node_drop_fd(struct nodes *nodes, struct node *node);
