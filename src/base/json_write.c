/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON text out of values put one after the other; yajl's generator keeps the commas. */
#include "base/json_tree.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>

struct json_writer {
	yajl_gen gen;
};

struct json_writer *json_writer_new(const char *indent)
{
	struct json_writer *writer = xcalloc(1, sizeof(*writer));

	writer->gen = yajl_gen_alloc(&json_memory);
	if (indent) {
		yajl_gen_config(writer->gen, yajl_gen_beautify, 1);
		yajl_gen_config(writer->gen, yajl_gen_indent_string, indent);
	}
	return writer;
}

void json_put_null(struct json_writer *writer)
{
	yajl_gen_null(writer->gen);
}

void json_put_bool(struct json_writer *writer, bool value)
{
	yajl_gen_bool(writer->gen, value);
}

void json_put_i64(struct json_writer *writer, int64_t value)
{
	char digits[32];
	int n = snprintf(digits, sizeof(digits), "%" PRId64, value);

	yajl_gen_number(writer->gen, digits, (size_t)n);
}

void json_put_u64(struct json_writer *writer, uint64_t value)
{
	char digits[32];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);

	yajl_gen_number(writer->gen, digits, (size_t)n);
}

void json_put_string(struct json_writer *writer, const char *text)
{
	size_t size = strlen(text);
	_cleanup_free_ char *clean = NULL;

	if (!utf8_is_valid(text, size)) {
		clean = utf8_clean(text);
		text = clean;
		size = strlen(clean);
	}
	yajl_gen_string(writer->gen, (const unsigned char *)text, size);
}

void json_begin_array(struct json_writer *writer)
{
	yajl_gen_array_open(writer->gen);
}

void json_end_array(struct json_writer *writer)
{
	yajl_gen_array_close(writer->gen);
}

void json_begin_object(struct json_writer *writer)
{
	yajl_gen_map_open(writer->gen);
}

void json_end_object(struct json_writer *writer)
{
	yajl_gen_map_close(writer->gen);
}

char *json_writer_finish(struct json_writer *writer, size_t *length)
{
	const unsigned char *bytes = NULL;
	size_t size = 0;
	char *text;

	yajl_gen_get_buf(writer->gen, &bytes, &size);
	text = xcalloc(size + 1, 1);
	memcpy(text, bytes, size);
	if (length)
		*length = size;
	yajl_gen_free(writer->gen);
	free(writer);
	return text;
}

static void put_tree(struct json_writer *writer, const struct json *json)
{
	bool object = json->kind == JSON_OBJECT;

	switch (json->kind) {
	case JSON_NULL:
		json_put_null(writer);
		break;
	case JSON_BOOL:
		json_put_bool(writer, json->boolean);
		break;
	case JSON_NUMBER:
		yajl_gen_number(writer->gen, json->text, strlen(json->text));
		break;
	case JSON_STRING:
		json_put_string(writer, json->text);
		break;
	case JSON_ARRAY:
	case JSON_OBJECT:
		(object ? json_begin_object : json_begin_array)(writer);
		for (const struct json *child = json->first; child; child = child->next) {
			if (object)
				json_put_string(writer, child->name);
			put_tree(writer, child);
		}
		(object ? json_end_object : json_end_array)(writer);
		break;
	}
}

char *json_indent(const char *text)
{
	struct err err;
	struct json_document *document = json_parse(text, strlen(text), "JSON", 0, &err);
	struct json_writer *writer;

	if (!document) /* longer than a document may be: as it is */
		return xstrdup(text);
	writer = json_writer_new("  ");
	put_tree(writer, json_root(document));
	json_free(document);
	return json_writer_finish(writer, NULL);
}
