/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON text (RFC 8259) as a tree, and trees' pieces as JSON text; yajl beneath. Strict: no
 * duplicate names in an object, no NUL inside a string, UTF-8 only, and bounded in every way.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_SIZE_MAX	(16u << 20) /* bytes of text */
#define JSON_DEPTH_MAX	64	    /* objects and arrays inside one another */
#define JSON_VALUES_MAX (1u << 20)  /* values in one text */

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
	enum json_kind kind;
	bool boolean;	  /* JSON_BOOL */
	const char *name; /* in an object; else NULL */
	size_t name_end;  /* where in the text the name ends: an offset */
	const char
		*text; /* JSON_STRING; JSON_NUMBER: as it was written, so that no digit is lost */
	size_t count;  /* JSON_ARRAY, JSON_OBJECT: number of children */
	struct json *first; /* JSON_ARRAY, JSON_OBJECT: children, in the order of the text */
	struct json *next;  /* the next child of the same parent */
};

struct json_document;

#define JSON_COMMENTS 1u /* flag: accept comments, as in C */

/*
 * json_parse() - parse a text of one value.
 * @name: what the text is, in front of messages: "config.json" gives "config.json:12:5: ...".
 *
 * Returns a document that owns all that json_root() leads to, or NULL with err set (code EINVAL,
 * E2BIG where a limit was passed).
 */
struct json_document *json_parse(const char *text, size_t size, const char *name, unsigned flags,
				 struct err *err);
const struct json *json_root(const struct json_document *document);
void json_free(struct json_document *document);

/* json_get() - a member of an object by its name; NULL where there is none or no object. */
const struct json *json_get(const struct json *object, const char *name);

/* json_kind_name() - "a string", "an object", ...: for messages. */
const char *json_kind_name(enum json_kind kind);

/*
 * Whole numbers, exact. Return 0, or -1 with errno EINVAL (no number, or one with a fraction or an
 * exponent) or ERANGE.
 */
int json_to_i64(const struct json *json, int64_t *value);
int json_to_u64(const struct json *json, uint64_t *value);

/*
 * A writer: values one after the other, commas and colons by themselves. A member of an object is
 * json_put_string() for its name, then its value. Bytes that are not UTF-8 become U+FFFD.
 */
struct json_writer;

/* @indent: what a level is indented by, on lines of their own; NULL: all on one line. */
struct json_writer *json_writer_new(const char *indent);
void json_put_null(struct json_writer *writer);
void json_put_bool(struct json_writer *writer, bool value);
void json_put_i64(struct json_writer *writer, int64_t value);
void json_put_u64(struct json_writer *writer, uint64_t value);
void json_put_string(struct json_writer *writer, const char *text);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);
void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);

/*
 * json_writer_finish() - the text, NUL-terminated, the caller's to free; the writer is gone.
 * @length: where to put the number of bytes; may be NULL.
 */
char *json_writer_finish(struct json_writer *writer, size_t *length);

/*
 * json_indent() - a text that is known to be JSON, laid out for people: two spaces a level.
 * Returns a string that the caller frees.
 */
char *json_indent(const char *text);
