/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When a guest counts as one that idles; what comes of it is tested by test_vm_memory. */
#include "guest/reporting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND 1000000000ll

static void idle_or_not(void **state)
{
	assert_true(reporting_is_idle(SECOND, SECOND, 1));
	assert_true(reporting_is_idle(SECOND, SECOND * 95 / 100, 1));
	assert_false(reporting_is_idle(SECOND, SECOND * 85 / 100, 1));
	assert_false(reporting_is_idle(SECOND, 0, 1));
	/* One that works is enough, however many do not. */
	assert_true(reporting_is_idle(4 * SECOND, 16 * SECOND, 4));
	assert_false(reporting_is_idle(4 * SECOND, 15 * SECOND, 4));
	/* The two clocks are not read at the same time, and one may stand still. */
	assert_true(reporting_is_idle(SECOND, SECOND * 102 / 100, 1));
	assert_false(reporting_is_idle(0, 0, 1));
	assert_false(reporting_is_idle(SECOND, -SECOND, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(idle_or_not) };

	return cmocka_run_group_tests_name("reporting", tests, NULL, NULL);
}
