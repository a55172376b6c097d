/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Times in UTC: by hand at the edges of the calendar, and as the C library has each day. */
#include "base/mem.h"
#include "base/utc.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check(time_t seconds, const char *wanted)
{
	const struct timespec at = { .tv_sec = seconds };
	char text[UTC_SIZE];

	utc_format(&at, 0, text);
	assert_string_equal(text, wanted);
}

static void test_edges(void **state)
{
	check(0, "1970-01-01T00:00:00Z");
	check(86399, "1970-01-01T23:59:59Z");
	check(86400, "1970-01-02T00:00:00Z");
	check(31535999, "1970-12-31T23:59:59Z");
	check(31536000, "1971-01-01T00:00:00Z");
	check(951782399, "2000-02-28T23:59:59Z");
	check(951782400, "2000-02-29T00:00:00Z"); /* a leap year, as 400 divides it */
	check(951868800, "2000-03-01T00:00:00Z");
	check(978307199, "2000-12-31T23:59:59Z");
	check(1709164800, "2024-02-29T00:00:00Z");
	check(1740787199, "2025-02-28T23:59:59Z");
	check(1740787200, "2025-03-01T00:00:00Z");
	check(INT32_MAX, "2038-01-19T03:14:07Z");
	check((time_t)INT32_MAX + 1, "2038-01-19T03:14:08Z");
	check(4107542399, "2100-02-28T23:59:59Z");
	check(4107542400, "2100-03-01T00:00:00Z"); /* none, as 100 divides it */
	check(253402300799, "9999-12-31T23:59:59Z");
}

static void test_before_1970(void **state)
{
	check(-1, "1969-12-31T23:59:59Z");
	check(-86400, "1969-12-31T00:00:00Z");
	check(-86401, "1969-12-30T23:59:59Z");
	check(-2203891200, "1900-03-01T00:00:00Z");
	check(-2203891201, "1900-02-28T23:59:59Z");
	check(-62167219200, "0000-01-01T00:00:00Z");
}

static void test_fractions(void **state)
{
	const struct timespec at = { .tv_sec = 1, .tv_nsec = 987654321 }, least = { .tv_nsec = 1 },
			      most = { .tv_nsec = 999999999 };
	char text[UTC_SIZE];

	utc_format(&at, 9, text);
	assert_string_equal(text, "1970-01-01T00:00:01.987654321Z");
	utc_format(&at, 3, text);
	assert_string_equal(text, "1970-01-01T00:00:01.987Z");
	utc_format(&least, 9, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000000001Z");
	utc_format(&least, 3, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
	utc_format(&most, 1, text); /* never rounded up into a second that has not come yet */
	assert_string_equal(text, "1970-01-01T00:00:00.9Z");
}

/* No clock shows these, but what is given must fit. */
static void test_ends_of_time(void **state)
{
	const time_t ends[] = { (time_t)INT64_MAX, (time_t)INT64_MIN };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		const struct timespec at = { .tv_sec = ends[i], .tv_nsec = 999999999 };
		char text[UTC_SIZE];

		memset(text, 'x', sizeof(text));
		utc_format(&at, 9, text);
		assert_true(strnlen(text, sizeof(text)) < sizeof(text));
		assert_non_null(strstr(text, ".999999999Z"));
	}
}

/* Each day of 830 years, at another second of it. */
static void test_as_the_c_library(void **state)
{
	for (time_t day = -150 * 366; day < 680 * 366; day++) {
		const struct timespec at = { .tv_sec = day * 86400 + (day * 7919 & 0xffff) };
		char text[UTC_SIZE], wanted[UTC_SIZE];
		struct tm tm;

		assert_non_null(gmtime_r(&at.tv_sec, &tm));
		strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%SZ", &tm);
		utc_format(&at, 0, text);
		if (strcmp(text, wanted) != 0)
			assert_string_equal(text, wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_before_1970),
		cmocka_unit_test(test_fractions),
		cmocka_unit_test(test_ends_of_time),
		cmocka_unit_test(test_as_the_c_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
