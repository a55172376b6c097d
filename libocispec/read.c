/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A JSON tree into a struct, as a schema says. The way to a value is kept as a list on the C
 * stack and becomes text only for an error.
 */
#include "schema.h"

#include "base/json.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

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

static int read_object(struct reader *reader, const struct place *place,
		       const struct schema *schema, const struct json *json, void *object);

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

static int fail(struct reader *reader, const struct place *place, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct reader *reader, const struct place *place, const char *fmt, ...)
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

static int mismatch(struct reader *reader, const struct place *place, const char *expected,
		    const struct json *json)
{
	return fail(reader, place, "expected %s, found %s", expected, json_kind_name(json->kind));
}

static int check_value(struct reader *reader, const struct place *place, const char *const *allowed,
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
	return fail(reader, place, "unknown value \"%s\", expected one of: %s",
		    str_escape(value, strlen(value), shown, sizeof(shown)), list);
}

static int read_string(struct reader *reader, const struct place *place,
		       const struct schema_field *field, const struct json *json, char **value)
{
	char shown[SHOWN];

	if (json->kind != JSON_STRING)
		return mismatch(reader, place, "a string", json);
	if ((field->flags & SCHEMA_NONEMPTY) && field->shape == SCHEMA_ONE && !json->text[0])
		return fail(reader, place, "expected a string that is not empty");
	if ((field->flags & SCHEMA_ABSOLUTE) && json->text[0] != '/')
		return fail(reader, place, "expected an absolute path, found \"%s\"",
			    str_escape(json->text, strlen(json->text), shown, sizeof(shown)));
	if (field->values && check_value(reader, place, field->values, json->text) < 0)
		return -1;
	*value = xstrdup(json->text);
	return 0;
}

static int out_of_range(struct reader *reader, const struct place *place,
			const struct schema_field *field, const char *number)
{
	char shown[SHOWN];

	return fail(reader, place, "%s is out of range (%" PRId64 " to %" PRIu64 ")",
		    str_escape(number, strlen(number), shown, sizeof(shown)), field->min,
		    field->max);
}

static int read_signed(struct reader *reader, const struct place *place,
		       const struct schema_field *field, const struct json *json, int64_t *value)
{
	int r;

	if (json->kind != JSON_NUMBER)
		return mismatch(reader, place, "an integer", json);
	r = json_to_i64(json, value);
	if (r < 0 && errno == EINVAL)
		return fail(reader, place, "expected an integer, found %.*s", SHOWN, json->text);
	if (r < 0 || *value < field->min || (*value > 0 && (uint64_t)*value > field->max))
		return out_of_range(reader, place, field, json->text);
	return 0;
}

static int read_unsigned(struct reader *reader, const struct place *place,
			 const struct schema_field *field, const struct json *json, uint64_t *value)
{
	int r;

	if (json->kind != JSON_NUMBER)
		return mismatch(reader, place, "an unsigned integer", json);
	r = json_to_u64(json, value);
	if (r < 0 && errno == EINVAL)
		return fail(reader, place, "expected an unsigned integer, found %.*s", SHOWN,
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
	char digits[24];
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
		return fail(reader, place, "expected a size, such as 1048576 or \"512M\"");
	memcpy(digits, json->text, length);
	digits[length] = '\0';
	if (str_to_u64(digits, UINT64_MAX >> shift, value) < 0)
		return out_of_range(reader, place, field, json->text);
	*value <<= shift;
	if (*value < (uint64_t)field->min || *value > field->max)
		return out_of_range(reader, place, field, json->text);
	return 0;
}

static void store(enum schema_kind kind, uint64_t number, void *value)
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

static int read_number(struct reader *reader, const struct place *place,
		       const struct schema_field *field, const struct json *json, void *value)
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
		store(field->kind, number, value);
	return r;
}

/* One value, not null, of a field's kind, into the place where such a value is kept. */
static int read_one(struct reader *reader, const struct place *place,
		    const struct schema_field *field, const struct json *json, void *value)
{
	switch (field->kind) {
	case SCHEMA_STRING:
		return read_string(reader, place, field, json, value);
	case SCHEMA_BOOL:
		if (json->kind != JSON_BOOL)
			return mismatch(reader, place, "a boolean", json);
		*(bool *)value = json->boolean;
		return 0;
	case SCHEMA_OBJECT:
		return read_object(reader, place, field->schema, json, value);
	default:
		return read_number(reader, place, field, json, value);
	}
}

/* Two elements must not have the same string in a property. Ends at the first that do. */
static int check_unique(struct reader *reader, const struct place *place,
			const struct schema_field *field, const struct json *array)
{
	size_t i = 0, j;

	for (const struct json *a = array->first; a; a = a->next, i++) {
		const struct json *mine = json_get(a, field->unique);
		struct place element = { .up = place, .index = i };

		j = 0;
		for (const struct json *b = array->first; b != a; b = b->next, j++)
			if (str_eq(json_get(b, field->unique)->text, mine->text))
				return fail(reader, &element,
					    "%s \"%.*s\" is given twice, in [%zu] too",
					    field->unique, SHOWN, mine->text, j);
	}
	return 0;
}

static int read_array(struct reader *reader, const struct place *place,
		      const struct schema_field *field, const struct json *json, void *object)
{
	size_t size = schema_value_size(field), *n = (size_t *)((char *)object + field->has);
	struct place element = { .up = place };
	char *items;

	if (json->kind != JSON_ARRAY)
		return mismatch(reader, place, "an array", json);
	if ((field->flags & SCHEMA_NONEMPTY) && json->count == 0)
		return fail(reader, place, "expected an array that is not empty");
	/* One more: arrays of strings end with NULL. */
	items = xcalloc(json->count + 1, size);
	*(void **)((char *)object + field->offset) = items;
	for (const struct json *item = json->first; item; item = item->next, element.index++) {
		++*n; /* first, so that schema_free() finds what a failure leaves half made */
		if (read_one(reader, &element, field, item, items + element.index * size) < 0)
			return -1;
	}
	return field->unique ? check_unique(reader, place, field, json) : 0;
}

static int read_map(struct reader *reader, const struct place *place,
		    const struct schema_field *field, const struct json *json, void *object)
{
	size_t size = schema_value_size(field), *n = (size_t *)((char *)object + field->has);
	char *items;

	if (json->kind != JSON_OBJECT)
		return mismatch(reader, place, "an object", json);
	items = xcalloc(json->count + 1, size);
	*(void **)((char *)object + field->offset) = items;
	for (const struct json *item = json->first; item; item = item->next) {
		struct place entry = { .up = place, .name = item->name, .key = true };
		char *at = items + (*n)++ * size;
		void *value = at;

		*(char **)at = xstrdup(item->name);
		if (field->kind == SCHEMA_STRING)
			value = &((struct oci_pair *)at)->value;
		if (field->keys && check_value(reader, &entry, field->keys, item->name) < 0)
			return -1;
		if (read_one(reader, &entry, field, item, value) < 0)
			return -1;
	}
	return 0;
}

static int read_field(struct reader *reader, const struct place *place,
		      const struct schema_field *field, const struct json *json, void *object)
{
	char *value = (char *)object + field->offset;

	if (field->shape == SCHEMA_ARRAY)
		return read_array(reader, place, field, json, object);
	if (field->shape == SCHEMA_MAP)
		return read_map(reader, place, field, json, object);
	if (field->has != NO_OFFSET)
		*((bool *)object + field->has) = true;
	if (field->kind == SCHEMA_OBJECT) {
		void *child = xcalloc(1, field->schema->size);

		*(void **)value = child;
		return read_object(reader, place, field->schema, json, child);
	}
	return read_one(reader, place, field, json, value);
}

static void set_default(const struct schema_field *field, void *object)
{
	void *value = (char *)object + field->offset;

	if (field->kind == SCHEMA_STRING)
		*(char **)value = xstrdup(field->default_text);
	else if (field->kind == SCHEMA_OBJECT)
		*(void **)value = schema_new(field->schema);
	else
		store(field->kind, field->default_number, value);
}

void *schema_new(const struct schema *schema)
{
	char *object = xcalloc(1, schema->size);

	for (size_t i = 0; i < schema->count; i++)
		if (schema->fields[i].flags & SCHEMA_DEFAULT)
			set_default(&schema->fields[i], object);
	return object;
}

static int refuse_unknown(struct reader *reader, const struct place *place,
			  const struct schema *schema)
{
	char list[480] = "";
	size_t used = 0;

	for (size_t i = 0; i < schema->count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 schema->fields[i].name);
	return fail(reader, place, "unknown property, expected one of: %s", list);
}

static const struct schema_field *find_field(const struct schema *schema, const char *name)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct schema_field *field = &schema->fields[i];

		if (str_eq(field->name, name) || (field->alias && str_eq(field->alias, name)))
			return field;
	}
	return NULL;
}

/* What the text did not give: an error where it had to, else the default. */
static int complete(struct reader *reader, const struct place *place, const struct schema *schema,
		    uint64_t seen, void *object)
{
	for (size_t i = 0; i < schema->count; i++) {
		const struct schema_field *field = &schema->fields[i];
		struct place member = { .up = place, .name = field->name };

		if (seen & UINT64_C(1) << i)
			continue;
		if (field->flags & SCHEMA_REQUIRED)
			return fail(reader, &member, "is missing");
		if (field->flags & SCHEMA_DEFAULT)
			set_default(field, object);
	}
	return 0;
}

static int read_object(struct reader *reader, const struct place *place,
		       const struct schema *schema, const struct json *json, void *object)
{
	uint64_t seen = 0;

	if (json->kind != JSON_OBJECT)
		return mismatch(reader, place, "an object", json);
	for (const struct json *child = json->first; child; child = child->next) {
		const struct schema_field *field = find_field(schema, child->name);
		struct place member = { .up = place, .name = child->name };
		uint64_t bit;

		if (!field && schema->strict)
			return refuse_unknown(reader, &member, schema);
		if (!field || child->kind == JSON_NULL)
			continue;
		bit = UINT64_C(1) << (field - schema->fields);
		if (seen & bit)
			return fail(reader, &member, "\"%s\" and \"%s\" are the same property",
				    field->name, field->alias);
		seen |= bit;
		if (read_field(reader, &member, field, child, object) < 0)
			return -1;
	}
	return complete(reader, place, schema, seen, object);
}

void *schema_read(const struct schema *schema, const char *text, size_t size, const char *name,
		  struct err *err)
{
	struct reader reader = { .document = name, .err = err };
	struct json_document *document;
	void *object;
	int r;

	document = json_parse(text, size, name, schema->comments ? JSON_COMMENTS : 0, err);
	if (!document)
		return NULL;
	object = xcalloc(1, schema->size);
	r = read_object(&reader, NULL, schema, json_root(document), object);
	json_free(document);
	if (r == 0)
		return object;
	schema_free(schema, object);
	return NULL;
}
