/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arbitrary bytes as each of the documents that moat reads. What parses must be written as a text
 * that parses too, and that is then written as the same text.
 * Run: build/tests/fuzz/fuzz_config CORPUS build/tests/fuzz/config
 */
#include "oci/config.h"
#include "oci/runtime_features.h"
#include "oci/settings.h"
#include "oci/state.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TRY(type)                                                                                  \
	do {                                                                                       \
		_cleanup_(type##_free_pointer) struct type *first = NULL, *second = NULL;          \
		_cleanup_free_ char *text = NULL, *again = NULL;                                   \
		struct err err;                                                                    \
		size_t length = 0;                                                                 \
                                                                                                   \
		first = type##_parse((const char *)data, size, "fuzz", &err);                      \
		if (!first)                                                                        \
			break;                                                                     \
		text = type##_write(first, &length);                                               \
		second = type##_parse(text, length, "fuzz", &err);                                 \
		if (!second)                                                                       \
			abort();                                                                   \
		again = type##_write(second, &length);                                             \
		if (strcmp(text, again) != 0)                                                      \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	TRY(oci_config);
	TRY(oci_process);
	TRY(oci_linux_resources);
	TRY(oci_state);
	TRY(oci_container_process_state);
	TRY(oci_features);
	TRY(moat_settings);
	return 0;
}
