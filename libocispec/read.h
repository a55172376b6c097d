/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the reader of objects (read.c) and the reader of plain values (read_value.c). */
#pragma once

#include "schema.h"

#include "base/json.h"

#include <errno.h>

/* How many characters of a value or a name a message shows. */
#define SHOWN 64

struct place {
	const struct place *up;
	const char *name; /* a member's; NULL: an element */
	size_t index;
	bool key; /* the name is data, not a property: shown in ["..."] */
};

struct reader {
	const char *document;
	struct err *err;
};

/* read_fail() - say what is wrong at a place: "config.json: process.cwd: ...". Returns -1. */
int read_fail(struct reader *reader, const struct place *place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* read_mismatch() - another kind of value was expected: "a string", "an object". Returns -1. */
int read_mismatch(struct reader *reader, const struct place *place, const char *expected,
		  const struct json *json);

/* read_check_value() - one of the strings that are allowed. Returns 0, or -1. */
int read_check_value(struct reader *reader, const struct place *place, const char *const *allowed,
		     const char *value);

/* read_string(), read_number() - a value of a field into its member. Return 0, or -1. */
int read_string(struct reader *reader, const struct place *place, const struct schema_field *field,
		const struct json *json, char **value);
int read_number(struct reader *reader, const struct place *place, const struct schema_field *field,
		const struct json *json, void *value);

/* read_store() - a number, as two's complement, into a member of a kind. */
void read_store(enum schema_kind kind, uint64_t number, void *value);
