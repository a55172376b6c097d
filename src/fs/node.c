/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node table. Nodes are found by number (index and generation) and by identity (a hash). A
 * node goes when the guest has forgotten it and neither a child, a handle nor a tree needs it.
 */
#include "fs/node.h"

#include "base/mem.h"
#include "fs/watch.h"

#include <string.h>

#define NODE_CHUNK	1024u
#define NODE_HASH_FIRST 1024u
#define NODE_TOP	((uint32_t)FUSE_ROOT_ID) /* its index; index 0 is never used */

static struct node *node_at(const struct nodes *nodes, uint32_t index)
{
	return &nodes->chunks[index / NODE_CHUNK][index % NODE_CHUNK];
}

static size_t hash_of(const struct nodes *nodes, const struct identity *identity)
{
	uint64_t h = identity->ino * 0x9e3779b97f4a7c15ull;

	h ^= (identity->mount << 32) ^ ((uint64_t)identity->tree << 16) ^ identity->dev;
	h *= 0xff51afd7ed558ccdull;
	return (size_t)(h >> 32) & (nodes->hash_size - 1);
}

static void hash_insert(struct nodes *nodes, struct node *node)
{
	struct node **slot = &nodes->hash[hash_of(nodes, &node->identity)];

	node->next = *slot;
	*slot = node;
}

static void hash_remove(struct nodes *nodes, struct node *node)
{
	struct node **slot = &nodes->hash[hash_of(nodes, &node->identity)];

	while (*slot != node)
		slot = &(*slot)->next;
	*slot = node->next;
}

static void hash_grow(struct nodes *nodes)
{
	struct node **old = nodes->hash;
	size_t old_size = nodes->hash_size;

	nodes->hash_size = old_size * 2;
	nodes->hash = xcalloc(nodes->hash_size, sizeof(struct node *));
	for (size_t i = 0; i < old_size; i++) {
		for (struct node *node = old[i], *next; node; node = next) {
			next = node->next;
			hash_insert(nodes, node);
		}
	}
	free(old);
}

static void add_chunk(struct nodes *nodes)
{
	uint32_t first = (uint32_t)(nodes->chunk_count * NODE_CHUNK);
	struct node *chunk = xcalloc(NODE_CHUNK, sizeof(*chunk));

	nodes->chunks = xrealloc(nodes->chunks, nodes->chunk_count + 1, sizeof(struct node *));
	nodes->chunks[nodes->chunk_count++] = chunk;
	for (uint32_t i = NODE_CHUNK; i-- > 0;) {
		chunk[i].index = first + i;
		chunk[i].fd = -1;
		if (first + i > NODE_TOP) {
			chunk[i].next = nodes->free;
			nodes->free = &chunk[i];
		}
	}
}

void nodes_init(struct nodes *nodes, size_t max, size_t fds)
{
	struct identity top = { .tree = NODE_TREE_NONE, .type = S_IFDIR };

	*nodes = (struct nodes){ .max = max,
				 .hash_size = NODE_HASH_FIRST,
				 .cached_max = fds / 2,
				 .pinned_max = fds / 2 };
	nodes->hash = xcalloc(nodes->hash_size, sizeof(struct node *));
	add_chunk(nodes);
	node_at(nodes, NODE_TOP)->identity = top;
	node_at(nodes, NODE_TOP)->references = 1;
	nodes->count = 1;
}

void nodes_free(struct nodes *nodes)
{
	for (size_t c = 0; c < nodes->chunk_count; c++) {
		for (size_t i = 0; i < NODE_CHUNK; i++) {
			node_drop_fd(nodes, &nodes->chunks[c][i]);
			free(nodes->chunks[c][i].name);
		}
		free(nodes->chunks[c]);
	}
	free(nodes->chunks);
	free(nodes->hash);
	*nodes = (struct nodes){ 0 };
}

bool node_is_top(const struct node *node)
{
	return node->index == NODE_TOP;
}

uint64_t node_id(const struct node *node)
{
	return (uint64_t)node->generation << 32 | node->index;
}

struct node *node_get(struct nodes *nodes, uint64_t id)
{
	uint32_t index = (uint32_t)id;
	struct node *node;

	if (index < NODE_TOP || index / NODE_CHUNK >= nodes->chunk_count)
		return NULL;
	node = node_at(nodes, index);
	if (node->generation != id >> 32 || (!node->lookups && !node_is_top(node)))
		return NULL;
	return node;
}

bool identity_equal(const struct identity *a, const struct identity *b)
{
	return a->ino == b->ino && a->mount == b->mount && a->birth == b->birth &&
	       a->dev == b->dev && a->tree == b->tree && a->type == b->type;
}

struct identity identity_of(const struct statx *stx, uint16_t tree)
{
	struct identity identity = { .ino = stx->stx_ino,
				     .mount = stx->stx_mnt_id,
				     .dev = device_number(stx),
				     .tree = tree,
				     .type = stx->stx_mode & S_IFMT };

	if (S_ISLNK(stx->stx_mode) && stx->stx_mask & STATX_BTIME)
		identity.birth =
			(uint64_t)stx->stx_btime.tv_sec * 1000000000u + stx->stx_btime.tv_nsec;
	return identity;
}

struct node *node_find(struct nodes *nodes, const struct identity *identity)
{
	struct node *node = nodes->hash[hash_of(nodes, identity)];

	while (node && !identity_equal(&node->identity, identity))
		node = node->next;
	return node;
}

struct node *node_add(struct nodes *nodes, const struct identity *identity)
{
	struct node *node;

	if (nodes->count >= nodes->max)
		return NULL;
	if (!nodes->free)
		add_chunk(nodes);
	node = nodes->free;
	nodes->free = node->next;
	nodes->count++;
	if (nodes->count > nodes->hash_size)
		hash_grow(nodes);
	node->identity = *identity;
	node->opened_mtime = 0;
	node->opened_size = 0;
	hash_insert(nodes, node);
	return node;
}

/* Frees the node if nothing holds it, and then its parents as far as that was what held them. */
static void free_unheld(struct nodes *nodes, struct node *node)
{
	while (node && !node->lookups && !node->references) {
		struct node *parent = node->parent;

		if (node->watch)
			watch_remove(nodes->watches, node);
		node_drop_fd(nodes, node);
		hash_remove(nodes, node);
		free(node->name);
		node->name = NULL;
		node->parent = NULL;
		node->generation++;
		node->next = nodes->free;
		nodes->free = node;
		nodes->count--;
		if (parent)
			parent->references--;
		node = parent;
	}
}

void node_reference(struct node *node)
{
	node->references++;
}

void node_release(struct nodes *nodes, struct node *node)
{
	node->references--;
	free_unheld(nodes, node);
}

void node_forget(struct nodes *nodes, struct node *node, uint64_t lookups)
{
	node->lookups -= lookups < node->lookups ? lookups : node->lookups;
	free_unheld(nodes, node);
}

struct node *nodes_next(struct nodes *nodes, uint32_t *at)
{
	while (*at / NODE_CHUNK < nodes->chunk_count) {
		struct node *node = node_at(nodes, (*at)++);

		if (node->lookups)
			return node;
	}
	return NULL;
}

void nodes_forget_all(struct nodes *nodes)
{
	struct node *node;

	for (uint32_t at = 0; (node = nodes_next(nodes, &at));)
		node_forget(nodes, node, UINT64_MAX);
}
