/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file of include/fs/changes.h, and the answers to those who repeat what it tells. */
#pragma once

#include "fs/changes.h"
#include "fs/session.h"

/* Its node: index 0 is never given to another, so that all else sees none of that number. */
#define CHANGES_NODE ((uint64_t)1 << 32)

#define CHANGES_MAX   1024u  /* names to be told of; what happens to others is not told */
#define CHANGES_KNOWN 16384u /* names that are remembered with their node, a power of two */

struct change {
	uint64_t dir; /* node; of a file that is a tree, itself and an empty name */
	uint32_t kinds;
	bool was_directory; /* what is gone */
	char name[NAME_MAX + 1];
};

struct changes {
	uint32_t pid;	/* of the guest's process that reads */
	bool cancelled; /* the next read, or the one that waits, is to end */
	uint32_t count;
	uint32_t hashes[CHANGES_MAX]; /* of places */
	struct change pending[CHANGES_MAX];
	uint64_t stand_ins;	       /* how many there have been: see changes_stand_in() */
	uint64_t known[CHANGES_KNOWN]; /* node ids by place; a younger one takes an older's slot */
};

/* changes_lookup() - the top directory is asked for a name. Returns 0 or a negative errno. */
int changes_lookup(const struct session *session, const char *name, struct fuse_entry_out *out);

/* changes_serve() - any request about the file. */
int changes_serve(struct session *session, struct request *request, const void *arg);

/* changes_stop() - nobody reads any more. */
void changes_stop(struct session *session);

/* changes_gather() - the host did something: a watch_event, data is the session. */
void changes_gather(void *data, struct node *dir, const char *name, uint32_t mask);

/* changes_take() - take in what the host did. changes_are_there() - that a read would end now. */
void changes_take(struct session *session);
bool changes_are_there(const struct session *session);

/* changes_see() - the guest uses a directory: watch it, if somebody reads. */
void changes_see(struct session *session, struct node *node);

/* changes_know() - the guest was told that node is at its place. */
void changes_know(struct session *session, const struct node *node);

/* A name: the node that the guest knows by it, and that of the file which has it now. */
struct place {
	struct node *dir, *was, *is; /* NULL: none */
	const char *name;
	bool exists;
	uint32_t type; /* S_IFMT bits, if it exists */
};

/* changes_place() - dir and name are set: look at it. Returns 0 or a negative errno. */
int changes_place(struct session *session, struct place *place);
/* place_is_gone() - whether the guest knows a file by this name that has it no more. */
static inline bool place_is_gone(const struct place *place)
{
	return place->was && place->was != place->is;
}

/*
 * changes_stand_in() - a node for a file that is gone and of which the guest knows nothing, in its
 * place, so that its name can be taken away. It can be used for nothing else: no file of the host's
 * is the same. type: S_IFMT bits. NULL where there are too many nodes.
 */
struct node *changes_stand_in(struct session *session, const struct place *place, uint16_t type);

/*
 * told_serve() - a request of the one who repeats changes.
 * Returns false where it is an ordinary one; else *result is as of an operation.
 */
bool told_serve(struct session *session, struct request *request, int *result);
