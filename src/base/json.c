/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A JSON tree: its memory, and looking things up in it. */
#include "base/json_tree.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>

#define CHUNK_SIZE 16384u

struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

void *json_arena_get(struct json_document *document, size_t size)
{
	struct chunk *chunk = document->chunks;
	void *p;

	size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;

		chunk = xrealloc(NULL, 1, sizeof(*chunk) + room);
		chunk->next = document->chunks;
		chunk->used = 0;
		chunk->size = room;
		document->chunks = chunk;
	}
	p = chunk->bytes + chunk->used;
	chunk->used += size;
	return p;
}

const char *json_arena_string(struct json_document *document, const void *bytes, size_t size)
{
	char *s = json_arena_get(document, size + 1);

	memcpy(s, bytes, size);
	s[size] = '\0';
	return s;
}

static void *get_memory(void *data, size_t size)
{
	return xrealloc(NULL, 1, size);
}

static void *resize_memory(void *data, void *p, size_t size)
{
	return xrealloc(p, 1, size);
}

static void release_memory(void *data, void *p)
{
	free(p);
}

yajl_alloc_funcs json_memory = {
	.malloc = get_memory,
	.realloc = resize_memory,
	.free = release_memory,
};

void json_free(struct json_document *document)
{
	if (!document)
		return;
	for (struct chunk *chunk = document->chunks, *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(document);
}

const struct json *json_root(const struct json_document *document)
{
	return document->root;
}

const struct json *json_get(const struct json *object, const char *name)
{
	if (!object || object->kind != JSON_OBJECT)
		return NULL;
	for (const struct json *child = object->first; child; child = child->next)
		if (str_eq(child->name, name))
			return child;
	return NULL;
}

const char *json_kind_name(enum json_kind kind)
{
	static const char *const names[] = {
		[JSON_NULL] = "null",	    [JSON_BOOL] = "a boolean", [JSON_NUMBER] = "a number",
		[JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
	};

	return names[kind];
}

int json_to_u64(const struct json *json, uint64_t *value)
{
	if (json->kind != JSON_NUMBER) {
		errno = EINVAL;
		return -1;
	}
	if (str_eq(json->text, "-0")) {
		*value = 0;
		return 0;
	}
	if (json->text[0] == '-' && json->text[strspn(json->text, "-0123456789")] == '\0') {
		errno = ERANGE;
		return -1;
	}
	return str_to_u64(json->text, UINT64_MAX, value);
}

int json_to_i64(const struct json *json, int64_t *value)
{
	if (json->kind != JSON_NUMBER) {
		errno = EINVAL;
		return -1;
	}
	return str_to_i64(json->text, value);
}
