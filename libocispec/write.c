/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A struct as JSON text, as a schema says, in the order of the description. */
#include "schema.h"

#include "base/json.h"

static void write_object(struct json_writer *writer, const struct schema *schema,
			 const void *object);

static void write_one(struct json_writer *writer, const struct schema_field *field,
		      const void *value)
{
	switch ((enum schema_kind)field->kind) {
	case SCHEMA_STRING:
		json_put_string(writer, *(char *const *)value ? *(char *const *)value : "");
		break;
	case SCHEMA_BOOL:
		json_put_bool(writer, *(const bool *)value);
		break;
	case SCHEMA_I32:
		json_put_i64(writer, *(const int32_t *)value);
		break;
	case SCHEMA_I64:
		json_put_i64(writer, *(const int64_t *)value);
		break;
	case SCHEMA_U16:
		json_put_u64(writer, *(const uint16_t *)value);
		break;
	case SCHEMA_U32:
		json_put_u64(writer, *(const uint32_t *)value);
		break;
	case SCHEMA_U64:
	case SCHEMA_SIZE:
		json_put_u64(writer, *(const uint64_t *)value);
		break;
	case SCHEMA_OBJECT:
		write_object(writer, field->schema, value);
		break;
	}
}

/* Absent is not written; [] and {} are, where the text that was parsed had them. */
static bool is_present(const struct schema_field *field, const void *object)
{
	const char *value = (const char *)object + field->offset;

	if (field->shape != SCHEMA_ONE)
		return *(void *const *)value || (field->flags & SCHEMA_REQUIRED);
	if (field->kind == SCHEMA_STRING || field->kind == SCHEMA_OBJECT)
		return *(void *const *)value != NULL;
	if (field->has != NO_OFFSET)
		return *((const bool *)object + field->has);
	return (field->flags & (SCHEMA_REQUIRED | SCHEMA_DEFAULT)) || *(const bool *)value;
}

static void write_array(struct json_writer *writer, const struct schema_field *field,
			const void *object)
{
	size_t size = schema_value_size(field), n = *(size_t *)((const char *)object + field->has);
	const char *items = *(void *const *)((const char *)object + field->offset);

	json_begin_array(writer);
	for (size_t i = 0; i < n; i++)
		write_one(writer, field, items + i * size);
	json_end_array(writer);
}

static void write_map(struct json_writer *writer, const struct schema_field *field,
		      const void *object)
{
	size_t size = schema_value_size(field), n = *(size_t *)((const char *)object + field->has);
	const char *items = *(void *const *)((const char *)object + field->offset);

	json_begin_object(writer);
	for (size_t i = 0; i < n; i++) {
		const void *value = items + i * size;

		json_put_string(writer, *(char *const *)value);
		if (field->kind == SCHEMA_STRING)
			value = &((const struct oci_pair *)value)->value;
		write_one(writer, field, value);
	}
	json_end_object(writer);
}

static void write_object(struct json_writer *writer, const struct schema *schema,
			 const void *object)
{
	json_begin_object(writer);
	for (size_t i = 0; i < schema->count; i++) {
		const struct schema_field *field = &schema->fields[i];
		const void *value = (const char *)object + field->offset;

		if (!is_present(field, object))
			continue;
		json_put_string(writer, field->name);
		if (field->shape == SCHEMA_ARRAY)
			write_array(writer, field, object);
		else if (field->shape == SCHEMA_MAP)
			write_map(writer, field, object);
		else if (field->kind == SCHEMA_OBJECT)
			write_object(writer, field->schema, *(void *const *)value);
		else
			write_one(writer, field, value);
	}
	json_end_object(writer);
}

char *schema_write(const struct schema *schema, const void *object, size_t *length)
{
	struct json_writer *writer = json_writer_new(NULL);

	write_object(writer, schema, object);
	return json_writer_finish(writer, length);
}
