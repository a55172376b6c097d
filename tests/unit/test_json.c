/* SPDX-License-Identifier: GPL-2.0-or-later */
/* JSON: the place and the reason of what is wrong, the limits, exact numbers, the writer. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* after the headers it needs: */
#include <cmocka.h>

DEFINE_CLEANUP(struct json_document, json_free)

#define _cleanup_json_ _cleanup_(json_free_pointer)

static void assert_refused(const char *text, size_t size, unsigned flags, int code,
			   const char *message)
{
	struct err err = { 0 };

	assert_null(json_parse(text, size, "x", flags, &err));
	assert_string_equal(err.text, message);
	assert_int_equal(err.code, code);
}

#define HALF "an escape that is half of a character (a surrogate without its pair)"

static void test_grammar_errors_have_line_and_column(void **state)
{
	static const struct {
		const char *text, *message;
	} wrong[] = {
		{ "", "x: it is empty" },
		{ "{", "x:1:2: the text ends too early" },
		{ " \n ", "x:2:2: the text ends too early" },
		{ "{\n  \"a\": 1,\n  \"b\" 2\n}", "x:3:7: expected ':' after a name" },
		{ "{\"a\":1,}", "x:1:8: expected a name in double quotes" },
		{ "{\"a\":[1,2,]}", "x:1:11: expected a value" },
		{ "{\"a\":[1 2]}", "x:1:9: expected ',' or ']'" },
		{ "{\"a\":1 \"b\":2}", "x:1:10: expected ',' or '}'" },
		{ "{\n\"a\": 1\n}\nx", "x:4:1: more text after the end" },
		{ "{\"\xc3\xa9\":,}", "x:1:6: expected a value" }, /* columns are characters */
		{ "// c\n{}", "x:1:1: a comment, which is not accepted here" },
		{ "[\"a\nb\"]", "x:1:3: a control character in a string" },
		{ "[\"\xff\"]", "x:1:4: a string that is not UTF-8" },
		{ "[\"\xed\xa0\x80\"]", "x:1:4: a string that is not UTF-8" }, /* a surrogate */
		{ "[\"\\udc00\"]", "x:1:3: " HALF },
		{ "[\"\\ud800\"]", "x:1:3: " HALF },
		{ "[\"a\\\"\\uDBff?\"]", "x:1:6: " HALF },
		{ "[\"\\\\\",\n\"\\\\\\ud800\"]", "x:2:4: " HALF },
		{ "[\"\\ud83d\\u0041\"]", "x:1:3: " HALF },
		{ "[\"\\ud83d\\ud83d\\udc0b\"]", "x:1:3: " HALF },
		{ "[\"\\ud83d\\udc0b\\udc0b\"]", "x:1:15: " HALF },
		{ "{\"\\ud83d\\n\":1}", "x:1:3: " HALF },
		{ "[\"\\u0000\"]", "x:1:9: a string with a NUL (\\u0000) in it" },
		{ "{\"a\\u0000\":1}", "x:1:10: a string with a NUL (\\u0000) in it" },
		{ "{\"a\":1,\n \"b\":2,\n \"a\":3, \"c\":4}",
		  "x:3:4: \"a\" is given twice in one object" },
		{ "[{\"a\\n\":{\"b\":1,\"b\":1}}]", "x:1:18: \"b\" is given twice in one object" },
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_refused(wrong[i].text, strlen(wrong[i].text), 0, EINVAL, wrong[i].message);
}

static char *repeat(const char *piece, size_t count)
{
	size_t size = strlen(piece);
	char *text = xcalloc(count * size + 1, 1);

	for (size_t i = 0; i < count; i++)
		memcpy(text + i * size, piece, size);
	return text;
}

static void test_limits(void **state)
{
	_cleanup_free_ char *deep = repeat("[", JSON_DEPTH_MAX + 1);
	_cleanup_free_ char *many = repeat("1,", JSON_VALUES_MAX + 1);
	_cleanup_free_ char *large = repeat(" ", JSON_SIZE_MAX + 1);

	assert_refused(deep, strlen(deep), 0, E2BIG, "x:1:65: nested too deeply");
	many[0] = '[';
	many[1] = ' ';
	assert_refused(many, strlen(many), 0, E2BIG, "x:1:2097153: too many values");
	assert_refused(large, strlen(large), 0, E2BIG,
		       "x: 16777217 bytes are more than the 16777216 that are accepted");
}

static void test_depth_up_to_the_limit(void **state)
{
	_cleanup_json_ struct json_document *document = NULL;
	_cleanup_free_ char *open = repeat("[", JSON_DEPTH_MAX);
	_cleanup_free_ char *close = repeat("]", JSON_DEPTH_MAX);
	_cleanup_free_ char *text = xasprintf("%s%s", open, close);

	document = json_parse(text, strlen(text), "x", 0, NULL);
	assert_non_null(document);
}

static void test_tree(void **state)
{
	static const char text[] = "{ /* c */ \"a\": [null, true, "
				   "\"\\u00e9\\ud83d\\udc0b\\\\ud800\"], // d\n \"b\": {} }";
	_cleanup_json_ struct json_document *document = NULL;
	const struct json *a, *b;

	document = json_parse(text, strlen(text), "x", JSON_COMMENTS, NULL);
	assert_non_null(document);
	a = json_get(json_root(document), "a");
	b = json_get(json_root(document), "b");
	assert_int_equal(a->kind, JSON_ARRAY);
	assert_int_equal(a->count, 3);
	assert_int_equal(a->first->kind, JSON_NULL);
	assert_true(a->first->next->boolean);
	assert_string_equal(a->first->next->next->text, "\xc3\xa9\xf0\x9f\x90\x8b\\ud800");
	assert_null(a->first->next->next->next);
	assert_int_equal(b->kind, JSON_OBJECT);
	assert_int_equal(b->count, 0);
	assert_null(json_get(json_root(document), "c"));
	assert_null(json_get(a, "c"));
}

/* One number through the parser: the errno of json_to_i64() and json_to_u64(), 0 for success. */
static void assert_number(const char *text, int i64_errno, int u64_errno)
{
	_cleanup_json_ struct json_document *document =
		json_parse(text, strlen(text), "x", 0, NULL);
	_cleanup_free_ char *again = NULL;
	int64_t i = 0;
	uint64_t u = 0;

	assert_non_null(document);
	assert_int_equal(json_to_i64(json_root(document), &i) ? errno : 0, i64_errno);
	assert_int_equal(json_to_u64(json_root(document), &u) ? errno : 0, u64_errno);
	if (!i64_errno && !str_eq(text, "-0")) {
		again = xasprintf("%jd", (intmax_t)i);
		assert_string_equal(again, text);
	} else if (!u64_errno && i64_errno) {
		again = xasprintf("%ju", (uintmax_t)u);
		assert_string_equal(again, text);
	}
}

static void test_numbers_are_exact(void **state)
{
	assert_number("0", 0, 0);
	assert_number("-0", 0, 0);
	assert_number("9007199254740993", 0, 0); /* the first that a double cannot hold */
	assert_number("9223372036854775807", 0, 0);
	assert_number("9223372036854775808", ERANGE, 0);
	assert_number("18446744073709551615", ERANGE, 0);
	assert_number("18446744073709551616", ERANGE, ERANGE);
	assert_number("-9223372036854775808", 0, ERANGE);
	assert_number("-9223372036854775809", ERANGE, ERANGE);
	assert_number("-1", 0, ERANGE);
	assert_number("1.0", EINVAL, EINVAL);
	assert_number("-1.5", EINVAL, EINVAL);
	assert_number("1e3", EINVAL, EINVAL);
	assert_number("\"1\"", EINVAL, EINVAL);
}

static void test_writer(void **state)
{
	struct json_writer *writer = json_writer_new(NULL);
	_cleanup_free_ char *text = NULL;
	size_t length = 0;

	json_begin_object(writer);
	json_put_string(writer, "a\"\n");
	json_begin_array(writer);
	json_put_i64(writer, INT64_MIN);
	json_put_u64(writer, UINT64_MAX);
	json_put_bool(writer, true);
	json_put_null(writer);
	json_put_string(writer, "\xc3\xa9\xff\xc3"); /* the last two bytes are no characters */
	json_end_array(writer);
	json_end_object(writer);
	text = json_writer_finish(writer, &length);
	assert_string_equal(text, "{\"a\\\"\\n\":[-9223372036854775808,18446744073709551615,true,"
				  "null,\"\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"]}");
	assert_int_equal(length, strlen(text));
}

static void test_utf8(void **state)
{
	assert_true(utf8_is_valid("a\xf0\x9f\x98\x80", 5));
	assert_true(utf8_is_valid("", 0));
	assert_false(utf8_is_valid("\xc0\x80", 2));	    /* not the shortest form */
	assert_false(utf8_is_valid("\xed\xa0\x80", 3));	    /* a surrogate */
	assert_false(utf8_is_valid("\xf4\x90\x80\x80", 4)); /* past U+10FFFF */
	assert_false(utf8_is_valid("\xf0\x9f\x98", 3));	    /* cut */
	assert_false(utf8_is_valid("\xfe\x80\x80\x80\x80", 5));
	assert_false(utf8_is_valid("\x80", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grammar_errors_have_line_and_column),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_depth_up_to_the_limit),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_numbers_are_exact),
		cmocka_unit_test(test_writer),
		cmocka_unit_test(test_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
