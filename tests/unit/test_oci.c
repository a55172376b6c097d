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

/* A process with something wrong in it, and what is said of it. */
static void test_errors_name_the_place(void **state)
{
	static const struct {
		const char *process, *message;
	} wrong[] = {
		{ "1", "expected an object, found a number" },
		{ "{}", "args: is missing" },
		{ "{\"args\":[\"a\"]}", "cwd: is missing" },
		{ "{\"env\":[\"A=\",\"FOO\"]}", "env[1]: expected NAME=VALUE, found \"FOO\"" },
		{ "{\"args\":null,\"cwd\":\"/\"}", "args: is missing" },
		{ "{\"args\":[]}", "args: expected an array that is not empty" },
		{ "{\"args\":\"a\"}", "args: expected an array, found a string" },
		{ "{\"args\":[\"a\",null]}", "args[1]: expected a string, found null" },
		{ "{\"cwd\":\"a\\u0001\"}", "cwd: expected an absolute path, found \"a\\x01\"" },
		{ "{\"terminal\":\"true\"}", "terminal: expected a boolean, found a string" },
		{ "{\"user\":{\"uid\":-1}}", "user.uid: -1 is out of range (0 to 4294967295)" },
		{ "{\"user\":{\"uid\":4294967296}}",
		  "user.uid: 4294967296 is out of range (0 to 4294967295)" },
		{ "{\"user\":{\"umask\":512}}", "user.umask: 512 is out of range (0 to 511)" },
		{ "{\"user\":{\"gid\":0.5}}", "user.gid: expected an unsigned integer, found 0.5" },
		{ "{\"user\":{\"additionalGids\":[1,true]}}",
		  "user.additionalGids[1]: expected an unsigned integer, found a boolean" },
		{ "{\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":1,\"soft\":\"1\"}]}",
		  "rlimits[0].soft: expected an unsigned integer, found a string" },
		{ "{\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":1}]}",
		  "rlimits[0].soft: is missing" },
		{ "{\"rlimits\":[{\"type\":\"RLIMIT_CPU\",\"hard\":1,\"soft\":1},"
		  "{\"type\":\"RLIMIT_CPU\",\"hard\":2,\"soft\":1}]}",
		  "rlimits[1]: type \"RLIMIT_CPU\" is given twice, in [0] too" },
		{ "{\"ioPriority\":{\"class\":\"x\"}}",
		  "ioPriority.class: unknown value \"x\", expected one of: IOPRIO_CLASS_RT, "
		  "IOPRIO_CLASS_BE, IOPRIO_CLASS_IDLE" },
		{ "{\"oomScoreAdj\":-1001}", "oomScoreAdj: -1001 is out of range (-1000 to 1000)" },
		{ "{\"scheduler\":{\"nice\":\"1\"}}",
		  "scheduler.nice: expected an integer, found a string" },
	};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		_cleanup_free_ char *expected = xasprintf("config.json: %s", wrong[i].message);
		struct err err = { 0 };

		assert_null(oci_process_parse(wrong[i].process, strlen(wrong[i].process),
					      "config.json", &err));
		assert_string_equal(err.text, expected);
		assert_int_equal(err.code, EINVAL);
	}
}

static struct oci_config *parse_config(const char *rest, struct err *err)
{
	_cleanup_free_ char *text =
		xasprintf("{\"ociVersion\":\"1.3.0\",\"root\":{\"path\":\"rootfs\"}%s}", rest);

	return oci_config_parse(text, strlen(text), "config.json", err);
}

static void assert_config_refused(const char *rest, const char *message)
{
	struct err err = { 0 };

	assert_null(parse_config(rest, &err));
	assert_string_equal(err.text, message);
}

static void test_config_errors(void **state)
{
	assert_config_refused(",\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"pid\"}]}",
			      "config.json: linux.namespaces[1]: type \"pid\" is given twice, "
			      "in [0] too");
	assert_config_refused(",\"linux\":{\"namespaces\":[{\"type\":\"pod\"}]}",
			      "config.json: linux.namespaces[0].type: unknown value \"pod\", "
			      "expected one of: pid, network, mount, ipc, uts, user, cgroup, time");
	assert_config_refused(",\"linux\":{\"timeOffsets\":{\"real\":{}}}",
			      "config.json: linux.timeOffsets[\"real\"]: unknown value \"real\", "
			      "expected one of: monotonic, boottime");
	assert_config_refused(",\"annotations\":{\"a.b\":true}",
			      "config.json: annotations[\"a.b\"]: expected a string, found a "
			      "boolean");
	assert_config_refused(",\"vm\":{\"hwconfig\":{},\"hwConfig\":{}}",
			      "config.json: vm.hwConfig: \"hwConfig\" and \"hwconfig\" are the "
			      "same property");
	assert_config_refused(",\"mounts\":[{\"source\":\"x\"}]",
			      "config.json: mounts[0].destination: is missing");
}

/* Rules that join several properties: check.c. */
static void test_config_checks(void **state)
{
	assert_config_refused(",\"linux\":{\"devices\":[{\"type\":\"p\",\"path\":\"/p\"},"
			      "{\"type\":\"c\",\"path\":\"/c\",\"major\":1}]}",
			      "config.json: linux.devices[1].minor: is missing");
	assert_config_refused(",\"mounts\":[{\"destination\":\"/a\",\"uidMappings\":"
			      "[{\"containerID\":0,\"hostID\":1,\"size\":1}]}]",
			      "config.json: mounts[0].gidMappings: is missing, while uidMappings "
			      "is there");
	assert_config_refused(",\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\","
			      "\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_KILL\","
			      "\"errnoRet\":1}]}}",
			      "config.json: linux.seccomp.syscalls[0].errnoRet: SCMP_ACT_KILL "
			      "returns no errno");
	assert_config_refused(",\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\","
			      "\"defaultErrnoRet\":1}}",
			      "config.json: linux.seccomp.defaultErrnoRet: SCMP_ACT_ALLOW returns "
			      "no errno");
	assert_config_refused(",\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\","
			      "\"syscalls\":[{\"names\":[\"a\"],\"action\":\"SCMP_ACT_NOTIFY\"}]}}",
			      "config.json: linux.seccomp.listenerPath: is missing, while "
			      "SCMP_ACT_NOTIFY is used");
}

static void test_config_members(void **state)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	config =
		parse_config(",\"process\":{\"args\":[\"a\",\"b\"],\"cwd\":\"/\"},\"mounts\":null,"
			     "\"unknown\":{\"a\":[{}]},\"annotations\":{\"k\":\"v\"},"
			     "\"linux\":{\"resources\":{\"memory\":{\"limit\":-1},"
			     "\"pids\":{}},\"maskedPaths\":[]},\"vm\":{\"hwconfig\":{\"vcpus\":3}}",
			     NULL);
	assert_non_null(config);
	assert_string_equal(config->oci_version, "1.3.0");
	assert_int_equal(config->process->n_args, 2);
	assert_string_equal(config->process->args[1], "b");
	assert_null(config->process->args[2]);
	assert_non_null(config->process->user);
	assert_int_equal(config->process->user->uid, 0);
	assert_int_equal(config->n_mounts, 0);
	assert_string_equal(config->annotations[0].key, "k");
	assert_string_equal(config->annotations[0].value, "v");
	assert_true(config->linux_->resources->memory->has_limit);
	assert_int_equal(config->linux_->resources->memory->limit, -1);
	assert_false(config->linux_->resources->pids->has_limit);
	assert_int_equal(config->linux_->n_masked_paths, 0);
	assert_int_equal(config->vm->hw_config->vcpus, 3);
	assert_null(config->hostname);
}

static struct moat_settings *parse_settings(const char *text, struct err *err)
{
	return moat_settings_parse(text, strlen(text), "moat.json", err);
}

static void test_settings(void **state)
{
	_cleanup_(moat_settings_free_pointer) struct moat_settings *given = NULL, *defaults = NULL;
	struct err err = { 0 };

	given = parse_settings("// the site's\n{\"level\":\"sandbox\",\"memory\":\"1G\","
			       "\"overhead\":1048576 /* bytes */}",
			       &err);
	assert_non_null(given);
	assert_string_equal(given->level, "sandbox");
	assert_int_equal(given->memory, 1 << 30);
	assert_int_equal(given->overhead, 1 << 20);
	assert_int_equal(given->vcpus, 1);
	defaults = moat_settings_new();
	assert_string_equal(given->kernel, defaults->kernel);
	assert_null(defaults->level);

	assert_null(parse_settings("{\"vcpu\":1}", &err));
	assert_non_null(strstr(err.text, "moat.json: vcpu: unknown property, expected one of: "
					 "level, kernel, init, vcpus,"));
	assert_null(parse_settings("{\"memory\":\"1X\"}", &err));
	assert_string_equal(err.text, "moat.json: memory: expected a size, such as 1048576 or "
				      "\"512M\", found \"1X\"");
	assert_null(parse_settings("{\"memory\":\"99999999999999T\"}", &err));
	assert_non_null(strstr(err.text, "memory: 99999999999999T is out of range"));
	assert_null(parse_settings("{\"memory\":\"1K\"}", &err));
	assert_non_null(strstr(err.text, "memory: 1K is out of range"));
}

/* A path or a value that is long, or not printable, is cut and escaped in messages. */
static void test_messages_are_safe(void **state)
{
	struct err err = { 0 };
	_cleanup_free_ char *name = xcalloc(5000, 1), *text = NULL;

	memset(name, 'n', 4999);
	text = xasprintf(",\"annotations\":{\"\\n%s\":1}", name);
	assert_null(parse_config(text, &err));
	assert_true(strlen(err.text) < 200);
	assert_null(strchr(err.text, '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_property_round_trips),
		cmocka_unit_test(test_errors_name_the_place),
		cmocka_unit_test(test_config_errors),
		cmocka_unit_test(test_config_checks),
		cmocka_unit_test(test_config_members),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_messages_are_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
