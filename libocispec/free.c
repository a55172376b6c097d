/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The destructor of all structs: whatever a schema says is owned, also when it is half made. */
#include "schema.h"

static void free_members(const struct schema *schema, void *object);

size_t schema_value_size(const struct schema_field *field)
{
	switch ((enum schema_kind)field->kind) {
	case SCHEMA_STRING:
		return field->shape == SCHEMA_MAP ? sizeof(struct oci_pair) : sizeof(char *);
	case SCHEMA_BOOL:
		return sizeof(bool);
	case SCHEMA_U16:
		return sizeof(uint16_t);
	case SCHEMA_I32:
	case SCHEMA_U32:
		return sizeof(uint32_t);
	case SCHEMA_I64:
	case SCHEMA_U64:
	case SCHEMA_SIZE:
		return sizeof(uint64_t);
	case SCHEMA_OBJECT:
		return field->schema->size;
	}
	return 0;
}

static void free_items(const struct schema_field *field, void *object)
{
	size_t size = schema_value_size(field), n = *(size_t *)((char *)object + field->has);
	char *items = *(void **)((char *)object + field->offset);

	for (size_t i = 0; i < n; i++) {
		void *item = items + i * size;

		if (field->kind == SCHEMA_OBJECT)
			free_members(field->schema, item);
		else if (field->kind == SCHEMA_STRING)
			free(*(char **)item);
		if (field->kind == SCHEMA_STRING && field->shape == SCHEMA_MAP)
			free(((struct oci_pair *)item)->value);
	}
	free(items);
}

static void free_members(const struct schema *schema, void *object)
{
	if (schema->keyed)
		free(*(char **)object);
	for (size_t i = 0; i < schema->count; i++) {
		const struct schema_field *field = &schema->fields[i];
		void *value = (char *)object + field->offset;

		if (field->shape != SCHEMA_ONE)
			free_items(field, object);
		else if (field->kind == SCHEMA_STRING)
			free(*(char **)value);
		else if (field->kind == SCHEMA_OBJECT)
			schema_free(field->schema, *(void **)value);
	}
}

void schema_free(const struct schema *schema, void *object)
{
	if (!object)
		return;
	free_members(schema, object);
	free(object);
}
