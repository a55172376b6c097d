/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON text to a tree: yajl reports events, which become nodes. Numbers stay text; the reader of
 * a node says what range it wants.
 */
#include "base/json_tree.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_parse.h>

struct level {
	struct json *parent;
	struct json **tail; /* where the next child goes */
};

struct parse {
	yajl_handle handle;
	const char *text; /* all of it */
	struct json_document *document;
	struct level levels[JSON_DEPTH_MAX];
	size_t depth;
	size_t values;
	const char *name;  /* of the member whose value comes next */
	size_t name_end;   /* offset behind it */
	int code;	   /* of a refusal of ours */
	size_t refused_at; /* offset behind what was refused */
	char refusal[256];
};

/* The offset behind the token that yajl reports. */
static size_t now(const struct parse *parse)
{
	return yajl_get_bytes_consumed(parse->handle);
}

static int refuse(struct parse *parse, int code, size_t at, const char *text)
{
	parse->code = code;
	parse->refused_at = at;
	snprintf(parse->refusal, sizeof(parse->refusal), "%s", text);
	return 0;
}

static struct json *add(struct parse *parse, enum json_kind kind)
{
	struct json *node;

	if (++parse->values > JSON_VALUES_MAX) {
		refuse(parse, E2BIG, now(parse), "too many values");
		return NULL;
	}
	node = json_arena_get(parse->document, sizeof(*node));
	*node = (struct json){ .kind = kind, .name = parse->name, .name_end = parse->name_end };
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
		node->text = json_arena_string(parse->document, text, size);
	return node != NULL;
}

/* The four digits of an escape, which yajl has checked; else 0. */
static unsigned int escaped_unit(const char *at, const char *end)
{
	char digits[5] = "";

	if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return 0;
	memcpy(digits, at + 2, 4);
	return (unsigned int)strtoul(digits, NULL, 16);
}

/*
 * yajl takes half of a surrogate pair for a question mark, or joins it with whatever \u follows.
 * So the string is looked at as it was written: back from its end, the first quote that no
 * backslash escapes is the one where it begins. Returns where the half is, or NULL.
 */
static const char *find_half_character(const char *text, size_t end_offset)
{
	const char *end = text + end_offset - 1, *begin = end, *at;

	do {
		begin = memrchr(text, '"', (size_t)(begin - text));
		at = begin;
		while (at && at > text && at[-1] == '\\')
			at--;
	} while (begin && (begin - at) % 2 != 0);
	if (!begin)
		return NULL;
	for (at = begin + 1; (at = memchr(at, '\\', (size_t)(end - at))); at += 2) {
		unsigned int first = escaped_unit(at, end);

		if (first < 0xd800 || first > 0xdfff)
			continue;
		if (first >= 0xdc00 || (escaped_unit(at + 6, end) & 0xfc00) != 0xdc00)
			return at;
		at += 10;
	}
	return NULL;
}

/* yajl's own check lets surrogates through, and does not see what \u escapes become. */
static int check_text(struct parse *parse, const unsigned char *text, size_t size)
{
	const char *wrong = NULL, *half = find_half_character(parse->text, now(parse));

	if (half) {
		refuse(parse, EINVAL, (size_t)(half - parse->text) + 1,
		       "an escape that is half of a character (a surrogate without its pair)");
		return -1;
	}
	if (memchr(text, 0, size))
		wrong = "a string with a NUL (\\u0000) in it";
	else if (!utf8_is_valid((const char *)text, size))
		wrong = "a string that is not UTF-8";
	if (wrong)
		refuse(parse, EINVAL, now(parse), wrong);
	return wrong ? -1 : 0;
}

static int on_string(void *data, const unsigned char *text, size_t size)
{
	struct parse *parse = data;
	struct json *node;

	if (check_text(parse, text, size) < 0)
		return 0;
	node = add(parse, JSON_STRING);
	if (node)
		node->text = json_arena_string(parse->document, text, size);
	return node != NULL;
}

static int on_name(void *data, const unsigned char *text, size_t size)
{
	struct parse *parse = data;

	if (check_text(parse, text, size) < 0)
		return 0;
	parse->name = json_arena_string(parse->document, text, size);
	parse->name_end = now(parse);
	return 1;
}

static int begin(struct parse *parse, enum json_kind kind)
{
	struct json *node;

	if (parse->depth == JSON_DEPTH_MAX)
		return refuse(parse, E2BIG, now(parse), "nested too deeply");
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
	const struct json *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);

	/* Those of one name in the order of the text: the later one is the mistake. */
	return order ? order
		     : ((*x)->name_end > (*y)->name_end) - ((*x)->name_end < (*y)->name_end);
}

/* A member whose name an earlier one has, or NULL. Sorted: no quadratic time for a long object. */
static const struct json *find_duplicate(const struct json *object)
{
	const struct json *few[32], **members = few;
	_cleanup_free_ const struct json **many = NULL;
	size_t n = 0;

	if (object->count > ARRAY_LEN(few))
		members = many = xcalloc(object->count, sizeof(*many));
	for (const struct json *child = object->first; child; child = child->next)
		members[n++] = child;
	qsort(members, n, sizeof(*members), compare_names);
	for (size_t i = 1; i < n; i++)
		if (str_eq(members[i - 1]->name, members[i]->name))
			return members[i];
	return NULL;
}

static int on_end_object(void *data)
{
	struct parse *parse = data;
	const struct json *twice = find_duplicate(parse->levels[--parse->depth].parent);
	char shown[128], text[192];

	if (!twice)
		return 1;
	snprintf(text, sizeof(text), "\"%s\" is given twice in one object",
		 str_escape(twice->name, strlen(twice->name), shown, sizeof(shown)));
	return refuse(parse, EINVAL, twice->name_end, text);
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

static const char after_member[] = "expected ',' or '}'";

/* What went wrong in the grammar: yajl's message, in plainer words where it has a riddle. */
static void explain(yajl_handle handle, char *out, size_t room)
{
	static const struct {
		const char *theirs, *ours;
	} plain[] = {
		{ "premature EOF", "the text ends too early" },
		{ "object key and value", "expected ':' after a name" },
		{ "invalid object key", "expected a name in double quotes" },
		{ "after key and value", after_member },
		{ "after array element", "expected ',' or ']'" },
		{ "unallowed token", "expected a value" },
		{ "invalid string in json", "unknown word, expected a value" },
		{ "invalid char in json", "unexpected character" },
		{ "trailing garbage", "more text after the end" },
		{ "probable comment", "a comment, which is not accepted here" },
		{ "invalid character inside string", "a control character in a string" },
	};
	unsigned char *text = yajl_get_error(handle, 0, NULL, 0);
	const char *what = (const char *)text;

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (strstr(what, plain[i].theirs))
			what = plain[i].ours;
	snprintf(out, room, "%s", what);
	out[strcspn(out, "\n")] = '\0';
	yajl_free_error(handle, text);
}

static int run(struct parse *parse, const char *text, size_t size, const char *name,
	       struct err *err)
{
	yajl_status status = yajl_parse(parse->handle, (const unsigned char *)text, size);
	size_t at = now(parse), line, column;

	if (at > 0)
		at--; /* the byte that is wrong has been consumed */
	if (status == yajl_status_ok) {
		status = yajl_complete_parse(parse->handle);
		at = size;
	}
	if (status == yajl_status_ok)
		return 0;
	if (parse->code)
		at = parse->refused_at - 1;
	else
		explain(parse->handle, parse->refusal, sizeof(parse->refusal));
	if (str_eq(parse->refusal, after_member))
		at++; /* here alone, yajl goes back to the start of the token */
	find_position(text, at < size ? at : size, &line, &column);
	err_set(err, 0, "%s:%zu:%zu: %s", name, line, column, parse->refusal);
	return set_code(err, parse->code ? parse->code : EINVAL);
}

struct json_document *json_parse(const char *text, size_t size, const char *name, unsigned flags,
				 struct err *err)
{
	struct parse parse = { .text = text };
	int r;

	if (size > JSON_SIZE_MAX) {
		err_set(err, 0, "%s: %zu bytes are more than the %u that are accepted", name, size,
			JSON_SIZE_MAX);
		set_code(err, E2BIG);
		return NULL;
	}
	if (size == 0) {
		err_set(err, 0, "%s: it is empty", name);
		set_code(err, EINVAL);
		return NULL;
	}
	parse.document = xcalloc(1, sizeof(*parse.document));
	parse.handle = yajl_alloc(&callbacks, &json_memory, &parse);
	yajl_config(parse.handle, yajl_allow_comments, (flags & JSON_COMMENTS) != 0);
	yajl_config(parse.handle, yajl_dont_validate_strings, 1); /* check_text() does */
	r = run(&parse, text, size, name, err);
	yajl_free(parse.handle);
	if (r == 0)
		return parse.document;
	json_free(parse.document);
	return NULL;
}
