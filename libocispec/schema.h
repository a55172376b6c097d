/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The descriptions as tables: generate.py writes them, schema_read(), schema_write() and
 * schema_free() follow them. Tables and three walkers are a tenth of the code that a parser,
 * writer and destructor for each struct would be, and there is one place to get right.
 */
#pragma once

#include "oci/types.h"

enum schema_kind {
	SCHEMA_STRING,
	SCHEMA_BOOL,
	SCHEMA_I32,
	SCHEMA_I64,
	SCHEMA_U16,
	SCHEMA_U32,
	SCHEMA_U64,
	SCHEMA_SIZE, /* uint64_t; a number, or a string with a suffix K, M, G or T */
	SCHEMA_OBJECT,
};

enum schema_shape {
	SCHEMA_ONE,
	SCHEMA_ARRAY, /* [T]: a pointer to the first and a size_t n_NAME */
	SCHEMA_MAP,   /* {T}: the same of oci_pair, or of structs whose first member is char *key */
};

#define SCHEMA_REQUIRED 1u /* it must be there */
#define SCHEMA_NONEMPTY 2u /* not "", [] */
#define SCHEMA_ABSOLUTE 4u /* begins with "/" */
#define SCHEMA_DEFAULT                                                                             \
	8u		  /* always there: from default_text, default_number, or an empty object   \
			   */
#define SCHEMA_ALWAYS 16u /* a number or boolean without has_NAME that is always written */
#define SCHEMA_PAIR   32u /* NAME=VALUE */

struct schema_field {
	const char *name;  /* in JSON */
	const char *alias; /* another name to accept, or NULL */
	uint8_t kind;
	uint8_t shape;
	uint16_t flags;
	uint16_t offset;	     /* of the member */
	uint16_t has;		     /* offset of has_NAME or n_NAME; NO_OFFSET: there is none */
	int64_t min;		     /* of a number */
	uint64_t max;		     /* of a number */
	const struct schema *schema; /* of SCHEMA_OBJECT */
	const char *const *values;   /* the strings that are allowed, ended by NULL; NULL: any */
	const char *const *keys;     /* of SCHEMA_MAP: the same for the names */
	const char *unique;	     /* name of the property that must differ in all elements */
	const char *default_text;
	uint64_t default_number; /* as the member's type, sign-extended */
};

struct schema {
	const char *name; /* of the struct */
	uint32_t size;
	uint16_t count;
	bool strict;   /* an unknown property is an error */
	bool comments; /* C comments are accepted */
	bool keyed;    /* the struct begins with char *key */
	const struct schema_field *fields;
};

#define NO_OFFSET UINT16_MAX

/*
 * schema_read() - parse a text into a new struct.
 * @name: what the text is, in front of messages.
 *
 * Returns a struct for schema_free(), or NULL with err set (code EINVAL or E2BIG); the message
 * names the place.
 */
void *schema_read(const struct schema *schema, const char *text, size_t size, const char *name,
		  struct err *err);

/* schema_new() - a struct with the defaults and nothing else. */
void *schema_new(const struct schema *schema);

/* schema_write() - the struct as compact JSON, the caller's to free. */
char *schema_write(const struct schema *schema, const void *object, size_t *length);

/* schema_free() - release a struct and all below it; NULL is no struct. */
void schema_free(const struct schema *schema, void *object);

/* schema_value_size() - size of one value of a field: an element, where it is an array or a map. */
size_t schema_value_size(const struct schema_field *field);
