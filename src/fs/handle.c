/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of open files and directories: an array with a free list. */
#include "fs/handle.h"

#include "base/fd.h"
#include "base/mem.h"

#define HANDLES_FIRST 64u
#define HANDLE_NONE   UINT32_MAX

void handles_init(struct handles *handles, uint32_t max)
{
	*handles = (struct handles){ .max = max, .free = HANDLE_NONE };
}

bool handles_room(const struct handles *handles)
{
	return handles->count < handles->max;
}

static void handles_grow(struct handles *handles)
{
	uint32_t size = handles->size ? handles->size * 2 : HANDLES_FIRST;

	handles->table = xrealloc(handles->table, size, sizeof(*handles->table));
	for (uint32_t i = size; i-- > handles->size;) {
		handles->table[i] = (struct handle){ .fd = -1, .next_free = handles->free };
		handles->free = i;
	}
	handles->size = size;
}

/* How many handles of that kind the node has. */
static uint32_t *count_of(struct node *node, enum handle_kind kind)
{
	return kind == HANDLE_DIRECT ? &node->open_direct : &node->open_cached;
}

uint64_t handle_add(struct handles *handles, struct node *node, int fd, enum handle_kind kind)
{
	struct handle *handle;
	uint32_t index;

	if (handles->free == HANDLE_NONE)
		handles_grow(handles);
	index = handles->free;
	handle = &handles->table[index];
	handles->free = handle->next_free;
	handles->count++;
	node_reference(node);
	++*count_of(node, kind);
	handle->node = node;
	handle->fd = fd;
	handle->kind = kind;
	handle->position = 0;
	return (uint64_t)handle->generation << 32 | index;
}

struct handle *handle_get(struct handles *handles, uint64_t id, const struct node *node,
			  bool directory)
{
	uint32_t index = (uint32_t)id;
	struct handle *handle;

	if (index >= handles->size)
		return NULL;
	handle = &handles->table[index];
	if (!node || handle->node != node || (handle->kind == HANDLE_DIRECTORY) != directory ||
	    handle->generation != id >> 32)
		return NULL;
	return handle;
}

uint32_t handle_hold(const struct handles *handles, struct handle *handle)
{
	handle->users++;
	return (uint32_t)(handle - handles->table);
}

void handle_let_go(struct handles *handles, uint32_t place)
{
	handles->table[place].users--;
}

void handle_close(struct handles *handles, struct nodes *nodes, struct handle *handle)
{
	struct node *node = handle->node;

	--*count_of(node, handle->kind);
	handle->node = NULL;
	fd_replace(&handle->fd, -1);
	handle->generation++;
	handle->next_free = handles->free;
	handles->free = (uint32_t)(handle - handles->table);
	handles->count--;
	node_release(nodes, node);
}

void handles_close_all(struct handles *handles, struct nodes *nodes)
{
	for (uint32_t i = 0; i < handles->size; i++)
		if (handles->table[i].node)
			handle_close(handles, nodes, &handles->table[i]);
	free(handles->table);
	handles_init(handles, handles->max);
}
