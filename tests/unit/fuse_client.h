/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Test only: a guest kernel's side of a FUSE session, over a temporary directory as tree 0. */
#pragma once

#include "fs/session.h"

#define CLIENT_ROOM (1u << 20)

struct fuse_client {
	struct session *session;
	struct worker worker;
	char directory[64];	/* of the host: DIR/tree is tree 0, the rest must stay as it is */
	uint64_t tree;		/* node id of tree 0 */
	uint32_t uid, gid, pid; /* pid 0: 1, the guest's init */
	uint8_t *answer;	/* header and payload of the last one */
	size_t answered;	/* bytes of payload */
	uint32_t room;		/* of the writable part, header included */
	uint8_t *parked;	/* a request that waits */
	size_t parked_size;
};

#define CLIENT_PARKED 2

/* client_open() - a session with all that a current kernel offers. */
void client_open(struct fuse_client *client, uint32_t tree_flags);
void client_close(struct fuse_client *client);

/* client_join() - another client of the same session, on a thread of its own. */
void client_join(struct fuse_client *client, const struct fuse_client *first);
void client_leave(struct fuse_client *client);

/*
 * client_call() - one request: argument, then text (which may be NULL).
 * Returns the answer's error, 0 or negative; 1 where there was no answer; CLIENT_PARKED where it
 * will come later.
 */
int client_call(struct fuse_client *client, uint32_t opcode, uint64_t node, const void *arg,
		size_t arg_size, const void *text, size_t text_size);
/* client_wait() - what the host did is taken in; returns as client_call() would for the one that
 * waits. */
int client_wait(struct fuse_client *client);
/* client_name() - the same with one name, or two, each with its NUL. */
int client_name(struct fuse_client *client, uint32_t opcode, uint64_t node, const void *arg,
		size_t arg_size, const char *name, const char *second);

static inline const void *client_payload(const struct fuse_client *client)
{
	return client->answer + sizeof(struct fuse_out_header);
}

/* For tests that go on only with success: the node or handle, 0 on failure. */
uint64_t client_lookup(struct fuse_client *client, uint64_t dir, const char *name);
uint64_t client_create(struct fuse_client *client, uint64_t dir, const char *name, uint32_t mode,
		       uint64_t *handle);
uint64_t client_mkdir(struct fuse_client *client, uint64_t dir, const char *name);
int client_open_node(struct fuse_client *client, uint64_t node, uint32_t flags, uint64_t *handle);
int client_read(struct fuse_client *client, uint64_t node, uint64_t handle, uint64_t offset,
		uint32_t size);
int client_write(struct fuse_client *client, uint64_t node, uint64_t handle, uint64_t offset,
		 const char *text, uint32_t flags, uint32_t write_flags);
int client_setattr(struct fuse_client *client, uint64_t node, const struct fuse_setattr_in *in);
int client_getattr(struct fuse_client *client, uint64_t node, struct fuse_attr *attr);
void client_forget(struct fuse_client *client, uint64_t node, uint64_t lookups);

/* client_path() - a path in the tree, as the host sees it; valid until the next call. */
const char *client_path(const struct fuse_client *client, const char *name);
