/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A JSON tree into a struct, as a schema says: objects, arrays, maps, what is missing. */
#include "read.h"

#include "base/str.h"

#include <stdio.h>

static int read_object(struct reader *reader, const struct place *place,
		       const struct schema *schema, const struct json *json, void *object);

/* One value, not null, of a field's kind, into the place where such a value is kept. */
static int read_one(struct reader *reader, const struct place *place,
		    const struct schema_field *field, const struct json *json, void *value)
{
	switch (field->kind) {
	case SCHEMA_STRING:
		return read_string(reader, place, field, json, value);
	case SCHEMA_BOOL:
		if (json->kind != JSON_BOOL)
			return read_mismatch(reader, place, "a boolean", json);
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
				return read_fail(reader, &element,
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
		return read_mismatch(reader, place, "an array", json);
	if ((field->flags & SCHEMA_NONEMPTY) && json->count == 0)
		return read_fail(reader, place, "expected an array that is not empty");
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
		return read_mismatch(reader, place, "an object", json);
	items = xcalloc(json->count + 1, size);
	*(void **)((char *)object + field->offset) = items;
	for (const struct json *item = json->first; item; item = item->next) {
		struct place entry = { .up = place, .name = item->name, .key = true };
		char *at = items + (*n)++ * size;
		void *value = at;

		*(char **)at = xstrdup(item->name);
		if (field->kind == SCHEMA_STRING)
			value = &((struct oci_pair *)at)->value;
		if (field->keys && read_check_value(reader, &entry, field->keys, item->name) < 0)
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
		read_store(field->kind, field->default_number, value);
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
	return read_fail(reader, place, "unknown property, expected one of: %s", list);
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
			return read_fail(reader, &member, "is missing");
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
		return read_mismatch(reader, place, "an object", json);
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
			return read_fail(reader, &member, "\"%s\" and \"%s\" are the same property",
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
