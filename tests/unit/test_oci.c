/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The generated parsers: every property of every document survives a round trip, and what is
 * wrong is refused with the place and the reason.
 */
#include "base/str.h"
#include "oci/config-sample.h"
#include "oci/config.h"
#include "oci/runtime_features-sample.h"
#include "oci/runtime_features.h"
#include "oci/settings-sample.h"
#include "oci/settings.h"
#include "oci/state-sample.h"
#include "oci/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* after the headers it needs: */
#include <cmocka.h>

#define ROUND_TRIP(type)                                                                           \
	do {                                                                                       \
		_cleanup_(type##_free_pointer) struct type *object = NULL;                         \
		struct err err = { 0 };                                                            \
		size_t length = 0;                                                                 \
		_cleanup_free_ char *text = NULL;                                                  \
                                                                                                   \
		object = type##_parse(type##_sample, sizeof(type##_sample) - 1, "sample", &err);   \
		assert_string_equal(err.text, "");                                                 \
		assert_non_null(object);                                                           \
		text = type##_write(object, &length);                                              \
		assert_string_equal(text, type##_sample);                                          \
		assert_int_equal(length, sizeof(type##_sample) - 1);                               \
	} while (0)

/* The samples hold every property, in order, so that what comes back must be the same bytes. */
static void test_every_property_round_trips(void **state)
{
	ROUND_TRIP(oci_config);
	ROUND_TRIP(oci_process);
	ROUND_TRIP(oci_linux_resources);
	ROUND_TRIP(oci_state);
	ROUND_TRIP(oci_container_process_state);
	ROUND_TRIP(oci_features);
	ROUND_TRIP(moat_settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_property_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
