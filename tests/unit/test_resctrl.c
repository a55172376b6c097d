/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Groups in resctrl, on a tree of plain files: this machine's processors may not have it. Linked so
 * that a directory made in it has at once what the kernel would put there.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/resctrl.h"
#include "oci/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define SCHEMATA "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);

static char root[] = "/tmp/moat-resctrl-XXXXXX";
static char state[] = "/tmp/moat-resctrl-state-XXXXXX";
static int state_fd;

static void put(const char *directory, const char *name, const char *text)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", directory, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static char *get(const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", root, name);

	return file_read(AT_FDCWD, path, 4096, NULL, NULL);
}

/* What was written is at the start: unlike the kernel's, a plain file keeps what was behind it. */
static void assert_file(const char *name, const char *text)
{
	_cleanup_free_ char *is = get(name);

	assert_non_null(is);
	is[strlen(text) < strlen(is) ? strlen(text) : strlen(is)] = '\0';
	assert_string_equal(is, text);
}

static bool exists(const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", root, name);

	return access(path, F_OK) == 0;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	_cleanup_free_ char *monitors = xasprintf("%s/mon_groups", path);

	if (__real_mkdir(path, mode) < 0)
		return -1;
	put(path, "tasks", "");
	if (!strstr(path, "mon_groups")) {
		put(path, "schemata", SCHEMATA);
		assert_int_equal(__real_mkdir(monitors, 0755), 0);
	}
	return 0;
}

int __wrap_rmdir(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : path_remove_tree(AT_FDCWD, path, NULL);
}

static int setup(void **unused)
{
	_cleanup_free_ char *info = NULL, *monitors = NULL;

	memcpy(strchr(root, 0) - 6, "XXXXXX", 6);
	memcpy(strchr(state, 0) - 6, "XXXXXX", 6);
	if (!mkdtemp(root) || !mkdtemp(state))
		return -1;
	state_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	info = xasprintf("%s/info", root);
	monitors = xasprintf("%s/mon_groups", root);
	__real_mkdir(info, 0755);
	__real_mkdir(monitors, 0755);
	put(info, "last_cmd_status", "ok\n");
	put(root, "tasks", "");
	put(root, "schemata", SCHEMATA);
	return 0;
}

static int teardown(void **unused)
{
	close(state_fd);
	return path_remove_tree(AT_FDCWD, root, NULL) | path_remove_tree(AT_FDCWD, state, NULL);
}

/* From linux.intelRdt on, prepared: 0, or -1 and the message holds the words. */
static int prepare(const char *json, struct oci_config **config, const char *words)
{
	_cleanup_free_ char *text = xasprintf(
		"{\"ociVersion\":\"1.3.0\",\"root\":{\"path\":\"x\"},\"linux\":{\"intelRdt\":%s}}",
		json);
	struct err err = { 0 };
	int r;

	*config = oci_config_parse(text, strlen(text), "config.json", &err);
	if (!*config)
		fail_msg("%s", err.text);
	r = resctrl_prepare(root, (*config)->linux_->intel_rdt, "one", state_fd, &err);
	if (words && !strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
	if (r < 0 && !words)
		fail_msg("%s", err.text);
	return r;
}

static void assert_refused(const char *json, const char *words)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	assert_int_equal(prepare(json, &config, words), -1);
	assert_int_equal(access(state, F_OK), 0);
	assert_int_equal(faccessat(state_fd, "resctrl", F_OK, 0), -1);
}

static void assert_join(const struct oci_config *config, pid_t pid)
{
	struct err err = { 0 };

	if (resctrl_join(root, config->linux_->intel_rdt, "one", pid, &err) < 0)
		fail_msg("%s", err.text);
}

static void release(const struct oci_config *config)
{
	assert_int_equal(resctrl_settle(root, config->linux_->intel_rdt, "one", state_fd, NULL), 0);
	assert_int_equal(resctrl_release(state_fd, NULL), 0);
	assert_int_equal(resctrl_release(state_fd, NULL), 0);
	assert_int_equal(faccessat(state_fd, "resctrl", F_OK, 0), -1);
}

static void test_own_group(void **unused)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	prepare("{\"l3CacheSchema\":\"L3:0=f;1=f\\nMB:0=1\",\"memBwSchema\":\"MB:0=20;1=70\\n\","
		"\"schemata\":[\"L2:0=3\",\"SMBA:0=64\"],\"enableMonitoring\":true}",
		&config, NULL);
	assert_file("one/schemata", "L3:0=f;1=f\nMB:0=20;1=70\nL2:0=3\nSMBA:0=64\n");
	assert_join(config, 4242);
	assert_file("one/tasks", "4242\n");
	assert_file("one/mon_groups/one/tasks", "4242\n");
	release(config);
	assert_false(exists("one"));
	assert_file("schemata", SCHEMATA);
}

static void test_named_group_that_is_there(void **unused)
{
	_cleanup_free_ char *path = xasprintf("%s/gold", root);
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	__wrap_mkdir(path, 0755);
	prepare("{\"closID\":\"gold\",\"enableCMT\":true}", &config, NULL);
	assert_join(config, 7);
	assert_file("gold/mon_groups/one/tasks", "7\n");
	assert_file("gold/schemata", SCHEMATA);
	release(config);
	assert_true(exists("gold"));
	assert_false(exists("gold/mon_groups/one"));
	assert_refused("{\"closID\":\"gold\",\"l3CacheSchema\":\"L3:0=7ff;1=3ff\"}",
		       "other shares");
	assert_refused("{\"closID\":\"gold\",\"l3CacheSchema\":\"L3:2=7ff\"}", "other shares");
	assert_refused("{\"closID\":\"gold\",\"schemata\":[\"L2:0=7ff\"]}", "other shares");
	assert_refused("{\"closID\":\"gold\",\"schemata\":[\"L3:0=7f\"]}", "other shares");
	assert_refused("{\"closID\":\"gold\",\"schemata\":[\"L3\"]}", "other shares");
	oci_config_free(config);
	prepare("{\"closID\":\"gold\",\"l3CacheSchema\":\"L3:1=7FF;0=07ff\",\"memBwSchema\":\"MB:0="
		"100\"}",
		&config, NULL);
	assert_file("gold/schemata", SCHEMATA);
	release(config);
}

static void test_named_group_that_is_made(void **unused)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	assert_refused("{\"closID\":\"silver\"}", "give a schema");
	prepare("{\"closID\":\"silver\",\"memBwSchema\":\"MB:0=10\"}", &config, NULL);
	assert_file("silver/schemata", "MB:0=10\n");
	/* before it is settled it is the container's alone */
	assert_int_equal(resctrl_release(state_fd, NULL), 0);
	assert_false(exists("silver"));
	oci_config_free(config);
	prepare("{\"closID\":\"silver\",\"memBwSchema\":\"MB:0=10\"}", &config, NULL);
	release(config);
	assert_true(exists("silver"));
}

static void test_root_group(void **unused)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;

	prepare("{\"closID\":\"/\",\"enableMonitoring\":true}", &config, NULL);
	assert_join(config, 9);
	assert_file("tasks", "9\n");
	assert_file("mon_groups/one/tasks", "9\n");
	release(config);
	assert_false(exists("mon_groups/one"));
	assert_refused("{\"closID\":\"/\",\"memBwSchema\":\"MB:0=10\"}", "host's own group");
}

static void test_refused(void **unused)
{
	static const char *const names[] = { "..",   ".",	   "a/b",      "../x",
					     "info", "mon_groups", "mon_data", "a\\nb" };
	_cleanup_free_ char *path = xasprintf("%s/one", root);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_free_ char *json = xasprintf("{\"closID\":\"%s\"}", names[i]);

		assert_refused(json, "expected the name of a group");
	}
	__wrap_mkdir(path, 0755);
	assert_refused("{}", "File exists");
	assert_true(exists("one"));
}

static void test_update(void **unused)
{
	_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;
	struct err err = { 0 };

	prepare("{}", &config, NULL);
	assert_int_equal(
		resctrl_update(root, config->linux_->intel_rdt, "one", "L3:0=1", "MB:0=50", &err),
		0);
	assert_file("one/schemata", "L3:0=1\nMB:0=50\n");
	release(config);
	/* what the kernel has against it is the reason */
	assert_int_equal(
		resctrl_update(root, config->linux_->intel_rdt, "one", "L3:0=1", NULL, &err), -1);
	assert_non_null(strstr(err.text, "the kernel says: ok"));
}

static void test_find(void **unused)
{
	_cleanup_free_ char *given = resctrl_find("/somewhere", NULL), *found = NULL;
	struct err err = { 0 };

	assert_string_equal(given, "/somewhere");
	found = resctrl_find(NULL, &err);
	if (!found)
		assert_non_null(strstr(err.text, "mount -t resctrl"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_group_that_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_group_that_is_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_root_group, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_update, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
