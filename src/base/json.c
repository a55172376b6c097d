/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON text to a tree: yajl reports events, which become nodes in an arena that is freed as one.
 * Numbers stay text; the reader of a node says what range it wants.
 */
#include "base/json.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_parse.h>

#define CHUNK_SIZE 16384u

struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

struct json_document {
	struct chunk *chunks;
	struct json *root;
};

struct level {
	struct json *parent;
	struct json **tail; /* where the next child goes */
};

struct parse {
	struct json_document *document;
	struct level levels[JSON_DEPTH_MAX];
	size_t depth;
	size_t values;
	const char *name; /* of the member whose value comes next */
	int code;	  /* of a refusal of ours */
	char refusal[256];
};

static void *arena_get(struct json_document *document, size_t size)
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

static const char *arena_string(struct json_document *document, const void *bytes, size_t size)
{
	char *s = arena_get(document, size + 1);

	memcpy(s, bytes, size);
	s[size] = '\0';
	return s;
}

static int refuse(struct parse *parse, int code, const char *text)
{
	parse->code = code;
	snprintf(parse->refusal, sizeof(parse->refusal), "%s", text);
	return 0;
}

static struct json *add(struct parse *parse, enum json_kind kind)
{
	struct json *node;

	if (++parse->values > JSON_VALUES_MAX) {
		refuse(parse, E2BIG, "too many values");
		return NULL;
	}
	node = arena_get(parse->document, sizeof(*node));
	*node = (struct json){ .kind = kind, .name = parse->name };
	parse->name = NULL;
	if (parse->depth == 0) {
		parse->document->root = node;
	} else {
		struct level *level = &parse->levels[parse->depth - 1];

		*level->tail = node;
		level->tail = &node->next;
		level->parent->count++;
	}
	return node;
}

static int on_null(void *data)
{
	return add(data, JSON_NULL) != NULL;
}

static int on_boolean(void *data, int value)
{
	struct json *node = add(data, JSON_BOOL);

	if (node)
		node->boolean = value != 0;
	return node != NULL;
}

static int on_number(void *data, const char *text, size_t size)
{
	struct parse *parse = data;
	struct json *node = add(parse, JSON_NUMBER);

	if (node)
		node->text = arena_string(parse->document, text, size);
	return node != NULL;
}

static int on_string(void *data, const unsigned char *text, size_t size)
{
	struct parse *parse = data;
	struct json *node;

	if (memchr(text, 0, size))
		return refuse(parse, EINVAL, "a string with a NUL (\\u0000) in it");
	node = add(parse, JSON_STRING);
	if (node)
		node->text = arena_string(parse->document, text, size);
	return node != NULL;
}

static int on_name(void *data, const unsigned char *text, size_t size)
{
	struct parse *parse = data;

	if (memchr(text, 0, size))
		return refuse(parse, EINVAL, "a name with a NUL (\\u0000) in it");
	parse->name = arena_string(parse->document, text, size);
	return 1;
}

static int begin(struct parse *parse, enum json_kind kind)
{
	struct json *node;

	if (parse->depth == JSON_DEPTH_MAX)
		return refuse(parse, E2BIG, "nested too deeply");
	node = add(parse, kind);
	if (!node)
		return 0;
	parse->levels[parse->depth++] = (struct level){ .parent = node, .tail = &node->first };
	return 1;
}

static int on_begin_object(void *data)
{
	return begin(data, JSON_OBJECT);
}

static int on_begin_array(void *data)
{
	return begin(data, JSON_ARRAY);
}

static int on_end_array(void *data)
{
	((struct parse *)data)->depth--;
	return 1;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that two members have, or NULL. Sorted, so that a long object takes no quadratic time. */
static const char *find_duplicate(const struct json *object)
{
	const char *few[32];
	_cleanup_free_ const char **many = NULL;
	const char **names = few;
	size_t n = 0;

	if (object->count > ARRAY_LEN(few))
		names = many = xcalloc(object->count, sizeof(*many));
	for (const struct json *child = object->first; child; child = child->next)
		names[n++] = child->name;
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 1; i < n; i++)
		if (str_eq(names[i - 1], names[i]))
			return names[i];
	return NULL;
}

static int on_end_object(void *data)
{
	struct parse *parse = data;
	const char *twice = find_duplicate(parse->levels[--parse->depth].parent);
	char shown[128];

	if (!twice)
		return 1;
	parse->code = EINVAL;
	snprintf(parse->refusal, sizeof(parse->refusal), "\"%s\" is given twice in one object",
		 str_escape(twice, strlen(twice), shown, sizeof(shown)));
	return 0;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_begin_object,
	.yajl_map_key = on_name,
	.yajl_end_map = on_end_object,
	.yajl_start_array = on_begin_array,
	.yajl_end_array = on_end_array,
};

static void *yajl_get_memory(void *data, size_t size)
{
	return xrealloc(NULL, 1, size);
}

static void *yajl_resize_memory(void *data, void *p, size_t size)
{
	return xrealloc(p, 1, size);
}

static void yajl_release_memory(void *data, void *p)
{
	free(p);
}

static yajl_alloc_funcs memory_functions = {
	.malloc = yajl_get_memory,
	.realloc = yajl_resize_memory,
	.free = yajl_release_memory,
};

/* Line and column, from 1, of an offset; a column is a character, not a byte. */
static void find_position(const char *text, size_t offset, size_t *line, size_t *column)
{
	*line = *column = 1;
	for (size_t i = 0; i < offset; i++) {
		if (text[i] == '\n') {
			++*line;
			*column = 1;
		} else if ((text[i] & 0xc0) != 0x80) {
			++*column;
		}
	}
}

/* A code without its text: "Invalid argument" after a message that says it all adds nothing. */
static int set_code(struct err *err, int code)
{
	if (err)
		err->code = code;
	return -1;
}

/* yajl's message is "class error: what\n": what is enough. */
static void explain(yajl_handle handle, char *out, size_t room)
{
	unsigned char *text = yajl_get_error(handle, 0, NULL, 0);
	const char *what = strstr((char *)text, "error: ");

	snprintf(out, room, "%s", what ? what + strlen("error: ") : (char *)text);
	out[strcspn(out, "\n")] = '\0';
	yajl_free_error(handle, text);
}

static int run(struct parse *parse, yajl_handle handle, const char *text, size_t size,
	       const char *name, struct err *err)
{
	yajl_status status = yajl_parse(handle, (const unsigned char *)text, size);
	size_t offset = yajl_get_bytes_consumed(handle), line, column;

	if (status == yajl_status_ok)
		status = yajl_complete_parse(handle);
	else if (offset > 0)
		offset--; /* the byte that was refused has been consumed */
	if (status == yajl_status_ok)
		return 0;
	find_position(text, offset < size ? offset : size, &line, &column);
	if (!parse->code)
		explain(handle, parse->refusal, sizeof(parse->refusal));
	err_set(err, 0, "%s:%zu:%zu: %s", name, line, column, parse->refusal);
	return set_code(err, parse->code ? parse->code : EINVAL);
}

struct json_document *json_parse(const char *text, size_t size, const char *name, unsigned flags,
				 struct err *err)
{
	struct parse parse;
	yajl_handle handle;
	int r;

	if (size > JSON_SIZE_MAX) {
		err_set(err, 0, "%s: %zu bytes are more than the %u that are accepted", name, size,
			JSON_SIZE_MAX);
		set_code(err, E2BIG);
		return NULL;
	}
	parse.depth = parse.values = 0;
	parse.name = NULL;
	parse.code = 0;
	parse.document = xcalloc(1, sizeof(*parse.document));
	handle = yajl_alloc(&callbacks, &memory_functions, &parse);
	yajl_config(handle, yajl_allow_comments, (flags & JSON_COMMENTS) != 0);
	r = run(&parse, handle, text, size, name, err);
	yajl_free(handle);
	if (r == 0)
		return parse.document;
	json_free(parse.document);
	return NULL;
}

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
