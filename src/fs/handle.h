/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of open files and directories. A handle's number holds an index and a generation: one
 * that was never given out, or was given back, is not found.
 */
#pragma once

#include "fs/node.h"

enum handle_kind {
	HANDLE_DIRECTORY,
	HANDLE_CACHED, /* a file, through the guest's cache */
	HANDLE_DIRECT, /* past it */
};

struct handle {
	struct node *node; /* a reference; NULL: free */
	int fd;		   /* -1: the top directory */
	enum handle_kind kind;
	uint32_t generation;
	uint32_t
		users; /* requests that use fd without the session's lock: it stays open for them */
	uint32_t next_free;
	int64_t position; /* where fd stands in a directory, as getdents64(2) counts */
};

struct handles {
	struct handle *table;
	uint32_t size, count, max;
	uint32_t free; /* index of the first free one; UINT32_MAX: none */
};

void handles_init(struct handles *handles, uint32_t max);
/* handles_close_all() - close all and free the table; usable again afterwards. */
void handles_close_all(struct handles *handles, struct nodes *nodes);

/* handles_room() - whether there can be one more. */
bool handles_room(const struct handles *handles);

/*
 * handle_add() - a handle for fd, owned from now on; there must be room.
 * Returns its number.
 */
uint64_t handle_add(struct handles *handles, struct node *node, int fd, enum handle_kind kind);

/* handle_get() - the handle that the guest means; NULL where it is none, or another node's. */
struct handle *handle_get(struct handles *handles, uint64_t id, const struct node *node,
			  bool directory);

/*
 * handle_hold() - keep it open across session_unlock(). Returns its place in the table, for
 * handle_let_go(): the handle itself may have moved by then.
 */
uint32_t handle_hold(const struct handles *handles, struct handle *handle);
void handle_let_go(struct handles *handles, uint32_t place);

/* handle_close() - of one that has no users. */
void handle_close(struct handles *handles, struct nodes *nodes, struct handle *handle);
