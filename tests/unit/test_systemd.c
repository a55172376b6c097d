/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits and annotations as properties of a systemd unit. */
#include "cgroup/systemd_properties.h"

#include "base/str.h"
#include "base/mem.h"
#include "cgroup/systemd.h"
#include "oci/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <inttypes.h>
#include <cmocka.h>

static void put_value(char *out, size_t room, const struct unit_property *p)
{
	char hex[64] = "";

	switch (p->signature[0]) {
	case 's':
		snprintf(out, room, "%s", p->bytes);
		return;
	case 'd':
		snprintf(out, room, "%g", p->real);
		return;
	case 'a':
		for (size_t i = 0; i < p->size && i < 24; i++)
			snprintf(hex + 2 * i, 3, "%02x", (unsigned char)p->bytes[i]);
		snprintf(out, room, "%s", hex);
		return;
	}
	if (p->number == UINT64_MAX && p->signature[0] == 't')
		snprintf(out, room, "infinity");
	else
		snprintf(out, room, "%" PRId64, (int64_t)p->number);
}

/* "Name:signature=value;…" */
static char *flat(const struct unit_properties *properties)
{
	char *all = xstrdup("");

	for (size_t i = 0; i < properties->count; i++) {
		const struct unit_property *p = &properties->items[i];
		char value[128], *longer;

		put_value(value, sizeof(value), p);
		longer = xasprintf("%s%s:%s=%s;", all, p->name, p->signature, value);
		free(all);
		all = longer;
	}
	return all;
}

static void expect_limits(const char *json, const char *expected)
{
	struct unit_properties properties = { 0 };
	struct err err = { 0 };
	struct oci_linux_resources *r = oci_linux_resources_parse(json, strlen(json), "r", &err);
	_cleanup_free_ char *text = NULL;

	if (!r || unit_add_limits(&properties, r, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	text = flat(&properties);
	assert_string_equal(text, expected);
	unit_properties_free(&properties);
	oci_linux_resources_free(r);
}

static void test_limits(void **state)
{
	expect_limits("{}", "");
	expect_limits("{\"memory\":{\"limit\":1000,\"reservation\":500,\"swap\":1500}}",
		      "MemoryMax:t=1000;MemoryLow:t=500;MemorySwapMax:t=500;");
	expect_limits("{\"memory\":{\"limit\":-1,\"swap\":-1}}",
		      "MemoryMax:t=infinity;MemorySwapMax:t=infinity;");
	expect_limits("{\"pids\":{\"limit\":7}}", "TasksMax:t=7;");
	expect_limits("{\"pids\":{\"limit\":-1}}", "TasksMax:t=infinity;");
	expect_limits("{\"cpu\":{\"shares\":1024}}", "CPUWeight:t=100;");
	expect_limits("{\"cpu\":{\"shares\":1024,\"idle\":1}}", "CPUWeight:t=0;");
	expect_limits("{\"cpu\":{\"quota\":50000,\"period\":100000}}",
		      "CPUQuotaPeriodUSec:t=100000;CPUQuotaPerSecUSec:t=500000;");
	/* Whole percents, rounded up: what is below may be given all that was asked for. */
	expect_limits("{\"cpu\":{\"quota\":50001,\"period\":100000}}",
		      "CPUQuotaPeriodUSec:t=100000;CPUQuotaPerSecUSec:t=510000;");
	expect_limits("{\"cpu\":{\"quota\":-1}}",
		      "CPUQuotaPeriodUSec:t=100000;CPUQuotaPerSecUSec:t=infinity;");
	expect_limits("{\"cpu\":{\"cpus\":\"0-2,9\",\"mems\":\"0\"}}",
		      "AllowedCPUs:ay=0702;AllowedMemoryNodes:ay=01;");
	expect_limits("{\"blockIO\":{\"weight\":500}}", "IOWeight:t=4950;");
	expect_limits("{\"unified\":{\"memory.high\":\"123\",\"memory.min\":\"max\",\"pids.max\":"
		      "\"5\",\"cpu.max\":\"max 50000\",\"hugetlb.2MB.max\":\"0\"}}",
		      "MemoryHigh:t=123;MemoryMin:t=infinity;TasksMax:t=5;"
		      "CPUQuotaPeriodUSec:t=50000;CPUQuotaPerSecUSec:t=infinity;");
}

static void test_bad_set(void **state)
{
	struct unit_properties properties = { 0 };
	struct err err = { 0 };
	struct oci_cpu cpu = { .cpus = (char *)"3-x" };
	struct oci_linux_resources r = { .cpu = &cpu };

	assert_int_equal(unit_add_limits(&properties, &r, &err), -1);
	assert_non_null(strstr(err.text, "AllowedCPUs"));
	unit_properties_free(&properties);
}

static void expect_text(const char *name, const char *value, const char *expected)
{
	struct unit_properties properties = { 0 };
	struct err err = { 0 };
	_cleanup_free_ char *text = NULL;

	if (unit_add_text(&properties, name, value, &err) < 0)
		fail_msg("%s: %s", value, err.text);
	text = flat(&properties);
	assert_string_equal(text, expected);
	unit_properties_free(&properties);
}

static void test_texts(void **state)
{
	expect_text("A", "15", "A:i=15;");
	expect_text("A", " -3 ", "A:i=-3;");
	expect_text("A", "uint64 18446744073709551615", "A:t=infinity;");
	expect_text("A", "uint32 4294967295", "A:u=4294967295;");
	expect_text("A", "int64 -9", "A:x=-9;");
	expect_text("A", "true", "A:b=1;");
	expect_text("A", "boolean false", "A:b=0;");
	expect_text("A", "1.5", "A:d=1.5;");
	expect_text("A", "'a \\'b\\' c'", "A:s=a 'b' c;");
	expect_text("A", "\"a\"", "A:s=a;");
	expect_text("A", "['a', 'bc']", "A:as=6100626300;");
	expect_text("A", "@as []", "A:as=;");
	expect_text("TimeoutStopSec", "uint64 7", "TimeoutStopUSec:t=7000000;");
	expect_text("TimeoutStopSec", "0.5", "TimeoutStopUSec:t=500000;");
	expect_text("TimeoutStopUSec", "uint64 7", "TimeoutStopUSec:t=7;");
}

static void test_texts_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",	      "word",	   "'open",
		"['a'",	      "['a' 'b']", "[1, 2]",
		"5 6",	      "uint32 -1", "uint32 4294967296",
		"2147483648", "int32 'a'", "string 5",
		"boolean 1",  "double x",  "''x",
		"@as 'a'",    "[",	   "uint64 ",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct unit_properties properties = { 0 };
		struct err err = { 0 };

		if (unit_add_text(&properties, "A", bad[i], &err) == 0)
			fail_msg("'%s' was accepted", bad[i]);
		assert_non_null(strstr(err.text, "org.systemd.property.A"));
		unit_properties_free(&properties);
	}
}

static void test_seconds_that_are_none(void **state)
{
	static const char *const bad[] = { "-1", "'a'", "true", "1e300" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct unit_properties properties = { 0 };
		struct err err = { 0 };

		assert_int_equal(unit_add_text(&properties, "TimeoutStopSec", bad[i], &err), -1);
		unit_properties_free(&properties);
	}
}

static void test_annotations_without_a_name(void **state)
{
	static const char *const bad[] = { "", " ", "Memory Min", "Memory.Min", "Memory1", "-" };
	char *listed[ARRAY_LEN(bad)];
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		listed[i] = xasprintf(SYSTEMD_ANNOTATION "%s", bad[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(systemd_annotation_has_name(listed[i]));
		if (systemd_available &&
		    systemd_annotation_check(listed[i], listed, ARRAY_LEN(bad), &err) == 0)
			fail_msg("'%s' was accepted", listed[i]);
		if (systemd_available)
			assert_non_null(strstr(err.text, "expected the name"));
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		free(listed[i]);
	assert_true(systemd_annotation_has_name(SYSTEMD_ANNOTATION "MemoryMin"));
	assert_int_equal(systemd_annotation_check(SYSTEMD_ANNOTATION "KillSignal", NULL, 0, &err),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_bad_set),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_texts_that_are_none),
		cmocka_unit_test(test_seconds_that_are_none),
		cmocka_unit_test(test_annotations_without_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
