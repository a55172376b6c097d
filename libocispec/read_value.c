/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Strings and numbers of a JSON tree into members of a struct, within the bounds that the schema
 * gives, and the messages for what is wrong. The way to a value is kept as a list on the C stack
 * and becomes text only for an error.
 */
#include "read.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* "process.rlimits[2].soft", cut where it would not fit. */
static void print_place(const struct place *place, char *out, size_t room)
{
	char shown[SHOWN];
	size_t used;

	if (!place) {
		out[0] = '\0';
		return;
	}
	print_place(place->up, out, room);
	used = strlen(out);
	if (place->name)
		str_escape(place->name, strlen(place->name), shown, sizeof(shown));
	if (!place->name)
		snprintf(out + used, room - used, "[%zu]", place->index);
	else if (place->key)
		snprintf(out + used, room - used, "[\"%s\"]", shown);
	else
		snprintf(out + used, room - used, "%s%s", used ? "." : "", shown);
}

int read_fail(struct reader *reader, const struct place *place, const char *fmt, ...)
{
	char where[512], what[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	print_place(place, where, sizeof(where));
	err_set(reader->err, 0, "%s: %s%s%s", reader->document, where, where[0] ? ": " : "", what);
	if (reader->err)
		reader->err->code = EINVAL;
	return -1;
}

int read_mismatch(struct reader *reader, const struct place *place, const char *expected,
		  const struct json *json)
{
	return read_fail(reader, place, "expected %s, found %s", expected,
			 json_kind_name(json->kind));
}

int read_check_value(struct reader *reader, const struct place *place, const char *const *allowed,
		     const char *value)
{
	char list[480] = "", shown[SHOWN];
	size_t used = 0;

	for (size_t i = 0; allowed[i]; i++)
		if (str_eq(allowed[i], value))
			return 0;
	for (size_t i = 0; allowed[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 allowed[i]);
	return read_fail(reader, place, "unknown value \"%s\", expected one of: %s",
			 str_escape(value, strlen(value), shown, sizeof(shown)), list);
}

int read_string(struct reader *reader, const struct place *place, const struct schema_field *field,
		const struct json *json, char **value)
{
	char shown[SHOWN];

	if (json->kind != JSON_STRING)
		return read_mismatch(reader, place, "a string", json);
	if ((field->flags & SCHEMA_NONEMPTY) && field->shape == SCHEMA_ONE && !json->text[0])
		return read_fail(reader, place, "expected a string that is not empty");
	if ((field->flags & SCHEMA_ABSOLUTE) && json->text[0] != '/')
		return read_fail(reader, place, "expected an absolute path, found \"%s\"",
				 str_escape(json->text, strlen(json->text), shown, sizeof(shown)));
	if ((field->flags & SCHEMA_PAIR) && !strchr(json->text, '='))
		return read_fail(reader, place, "expected NAME=VALUE, found \"%s\"",
				 str_escape(json->text, strlen(json->text), shown, sizeof(shown)));
	if (field->values && read_check_value(reader, place, field->values, json->text) < 0)
		return -1;
	*value = xstrdup(json->text);
	return 0;
}

static int out_of_range(struct reader *reader, const struct place *place,
			const struct schema_field *field, const char *number)
{
	char shown[SHOWN];

	return read_fail(reader, place, "%s is out of range (%" PRId64 " to %" PRIu64 ")",
			 str_escape(number, strlen(number), shown, sizeof(shown)), field->min,
			 field->max);
}

static int read_signed(struct reader *reader, const struct place *place,
		       const struct schema_field *field, const struct json *json, int64_t *value)
{
	int r;

	if (json->kind != JSON_NUMBER)
		return read_mismatch(reader, place, "an integer", json);
	r = json_to_i64(json, value);
	if (r < 0 && errno == EINVAL)
		return read_fail(reader, place, "expected an integer, found %.*s", SHOWN,
				 json->text);
	if (r < 0 || *value < field->min || (*value > 0 && (uint64_t)*value > field->max))
		return out_of_range(reader, place, field, json->text);
	return 0;
}

static int read_unsigned(struct reader *reader, const struct place *place,
			 const struct schema_field *field, const struct json *json, uint64_t *value)
{
	int r;

	if (json->kind != JSON_NUMBER)
		return read_mismatch(reader, place, "an unsigned integer", json);
	r = json_to_u64(json, value);
	if (r < 0 && errno == EINVAL)
		return read_fail(reader, place, "expected an unsigned integer, found %.*s", SHOWN,
				 json->text);
	if (r < 0 || *value < (uint64_t)field->min || *value > field->max)
		return out_of_range(reader, place, field, json->text);
	return 0;
}

/* 1048576, or "1024K", "1M": suffixes are powers of 1024. */
static int read_size(struct reader *reader, const struct place *place,
		     const struct schema_field *field, const struct json *json, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	char digits[24], shown[SHOWN];
	size_t length;
	unsigned shift = 0;
	const char *suffix;

	if (json->kind != JSON_STRING)
		return read_unsigned(reader, place, field, json, value);
	length = strspn(json->text, "0123456789");
	suffix = json->text + length;
	if (*suffix) {
		const char *at = strchr(suffixes, *suffix);

		shift = at ? 10 * (unsigned)(at - suffixes + 1) : 0;
		if (!at || suffix[1])
			length = 0;
	}
	if (length == 0 || length >= sizeof(digits))
		return read_fail(reader, place,
				 "expected a size, such as 1048576 or \"512M\", found \"%s\"",
				 str_escape(json->text, strlen(json->text), shown, sizeof(shown)));
	memcpy(digits, json->text, length);
	digits[length] = '\0';
	if (str_to_u64(digits, UINT64_MAX >> shift, value) < 0)
		return out_of_range(reader, place, field, json->text);
	*value <<= shift;
	if (*value < (uint64_t)field->min || *value > field->max)
		return out_of_range(reader, place, field, json->text);
	return 0;
}

void read_store(enum schema_kind kind, uint64_t number, void *value)
{
	switch (kind) {
	case SCHEMA_I32:
	case SCHEMA_U32:
		*(uint32_t *)value = (uint32_t)number;
		break;
	case SCHEMA_U16:
		*(uint16_t *)value = (uint16_t)number;
		break;
	case SCHEMA_BOOL:
		*(bool *)value = number != 0;
		break;
	default:
		*(uint64_t *)value = number;
	}
}

int read_number(struct reader *reader, const struct place *place, const struct schema_field *field,
		const struct json *json, void *value)
{
	uint64_t number = 0;
	int64_t signed_number = 0;
	int r;

	if (field->kind == SCHEMA_I32 || field->kind == SCHEMA_I64) {
		r = read_signed(reader, place, field, json, &signed_number);
		number = (uint64_t)signed_number;
	} else if (field->kind == SCHEMA_SIZE) {
		r = read_size(reader, place, field, json, &number);
	} else {
		r = read_unsigned(reader, place, field, json, &number);
	}
	if (r == 0)
		read_store(field->kind, number, value);
	return r;
}
