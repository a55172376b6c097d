/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parser and the writer of JSON share: the arena behind a document, yajl's memory. */
#pragma once

#include "base/json.h"

#include <yajl/yajl_common.h>

struct json_document {
	struct chunk *chunks; /* of memory, freed as one */
	struct json *root;
};

/* Memory that lives as long as the document. */
void *json_arena_get(struct json_document *document, size_t size);
/* The same, with a NUL behind a copy of the bytes. */
const char *json_arena_string(struct json_document *document, const void *bytes, size_t size);

extern yajl_alloc_funcs json_memory;
