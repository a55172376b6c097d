/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The namespace engine's parts that need no privilege; the rest is in tests/integration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/capabilities.h"
#include "sandbox/mount_options.h"
#include "sandbox/namespaces.h"
#include "sandbox/process.h"
#include "sandbox/setup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int read_options(const char *type, const char *options, struct mount_options *result,
			struct err *err)
{
	static char text[256]; /* what comes back may point into it */
	char *rest = text, *names[32], *name;
	struct oci_mount mount = { .destination = (char *)"/x",
				   .type = (char *)type,
				   .source = (char *)"/src",
				   .options = names };

	snprintf(text, sizeof(text), "%s", options);
	while (*options && (name = strsep(&rest, ",")))
		names[mount.n_options++] = name;
	return mount_options_read(&mount, result, err);
}

static void test_option_attributes(void **state)
{
	struct mount_options o;

	assert_int_equal(read_options("tmpfs", "ro,nosuid,rnodev,noexec,exec,size=1k", &o, NULL),
			 0);
	assert_int_equal(o.set, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID);
	assert_int_equal(o.clear, MOUNT_ATTR_NOEXEC);
	assert_int_equal(o.recursive_set, MOUNT_ATTR_NODEV);
	assert_int_equal(o.n_data, 1);
	assert_string_equal(o.data[0], "size=1k");
	assert_false(o.bind);
	mount_options_free(&o);
}

static void test_option_atime_is_one_field(void **state)
{
	struct mount_options o;

	assert_int_equal(read_options("proc", "noatime,strictatime,nodiratime", &o, NULL), 0);
	assert_int_equal(o.set, MOUNT_ATTR_STRICTATIME | MOUNT_ATTR_NODIRATIME);
	assert_int_equal(o.clear, MOUNT_ATTR__ATIME);
	mount_options_free(&o);
	assert_int_equal(read_options("proc", "noatime,relatime", &o, NULL), 0);
	assert_int_equal(o.set, 0);
	assert_int_equal(o.clear, MOUNT_ATTR__ATIME);
	mount_options_free(&o);
}

static void test_option_propagation(void **state)
{
	struct mount_options o;

	assert_int_equal(read_options("bind", "rslave,rshared", &o, NULL), 0);
	assert_true(o.bind);
	assert_false(o.bind_recursive);
	assert_int_equal(o.propagation, MS_SHARED);
	assert_true(o.propagation_recursive);
	mount_options_free(&o);
}

static void test_options_refused(void **state)
{
	static const char *const cases[][3] = {
		{ "bind", "nosuchthing", "nosuchthing" },
		{ "proc", "tmpcopyup", "tmpcopyup" },
		{ NULL, "ro", "neither" },
		{ "tmpfs", "idmap", "bind mount" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mount_options o;
		struct err err;

		assert_int_equal(read_options(cases[i][0], cases[i][1], &o, &err), -1);
		assert_non_null(strstr(err.text, cases[i][2]));
		mount_options_free(&o);
	}
}

/* The look-up is a binary search: an entry out of order would not be found. */
static void test_option_names_are_found(void **state)
{
	const char *const *names = mount_option_names();
	size_t count = 0;

	for (; names[count]; count++) {
		struct mount_options o;

		if (count)
			assert_true(strcmp(names[count - 1], names[count]) < 0);
		if (str_eq(names[count], "tmpcopyup") || str_ends_with(names[count], "idmap") ||
		    str_eq(names[count], "bind") || str_eq(names[count], "rbind"))
			continue;
		assert_int_equal(read_options("tmpfs", names[count], &o, NULL), 0);
		for (size_t i = 0; i < o.n_data;
		     i++) /* passed on only what is for the whole of it */
			assert_non_null(strstr("acl dirsync iversion lazytime mand noacl "
					       "noiversion nolazytime sync",
					       names[count]));
		mount_options_free(&o);
	}
	assert_true(count > 50);
}

static void test_capability_sets(void **state)
{
	/* 63: the library takes numbers, too, and no kernel has so many. */
	char *many[] = { (char *)"CAP_CHOWN", (char *)"CAP_KILL", (char *)"CAP_WHAT",
			 (char *)"63" };
	char *one[] = { (char *)"CAP_KILL" };
	struct oci_capabilities config = { .bounding = many,
					   .n_bounding = 4,
					   .permitted = many,
					   .n_permitted = 2,
					   .inheritable = one,
					   .n_inheritable = 1,
					   .ambient = many,
					   .n_ambient = 2 };
	struct capability_sets sets;

	capabilities_read(&config, &sets);
	assert_int_equal(sets.bounding, 1 << 5 | 1);
	assert_int_equal(sets.permitted, 1 << 5 | 1);
	assert_int_equal(sets.effective, 0);
	assert_int_equal(sets.ambient, 1 << 5); /* what is not inheritable cannot be ambient */
	capabilities_read(NULL, &sets);
	assert_int_equal(sets.bounding | sets.permitted | sets.inheritable, 0);
}

static int check_sysctl(const char *key, uint64_t namespaces)
{
	struct oci_pair pair = { .key = (char *)key, .value = (char *)"1" };
	struct oci_linux config = { .sysctl = &pair, .n_sysctl = 1 };
	struct setup setup = { .linux_ = &config, .namespaces.create = namespaces };

	return sysctl_check(&setup, NULL);
}

static void test_sysctl_names(void **state)
{
	assert_int_equal(check_sysctl("net.core.somaxconn", CLONE_NEWNET), 0);
	assert_int_equal(check_sysctl("net/ipv4/conf/eth0.1/forwarding", CLONE_NEWNET), 0);
	assert_int_equal(check_sysctl("net.core.somaxconn", CLONE_NEWIPC), -1);
	assert_int_equal(check_sysctl("kernel.sem", CLONE_NEWIPC), 0);
	assert_int_equal(check_sysctl("kernel.sem_", CLONE_NEWIPC), -1);
	assert_int_equal(check_sysctl("kernel.core_pattern", ~0ull), -1);
	assert_int_equal(check_sysctl("net.", CLONE_NEWNET), -1);
	assert_int_equal(check_sysctl("net/../kernel/core_pattern", ~0ull), -1);
	assert_int_equal(check_sysctl("net....kernel.core_pattern", ~0ull), -1);
	assert_int_equal(check_sysctl("/net/core/somaxconn", ~0ull), -1);
	assert_int_equal(check_sysctl("", ~0ull), -1);
}

static void test_namespaces(void **state)
{
	struct oci_namespace list[] = {
		{ .type = (char *)"mount" },
		{ .type = (char *)"uts", .path = (char *)"/proc/self/ns/uts" },
		{ .type = (char *)"ipc", .path = (char *)"/proc/self/ns/net" },
		{ .type = (char *)"mount" },
	};
	struct oci_linux config = { .namespaces = list, .n_namespaces = 2 };
	struct namespaces namespaces;
	struct err err;

	assert_int_equal(namespaces_open(&config, &namespaces, &err), 0);
	assert_int_equal(namespaces.create, CLONE_NEWNS);
	assert_int_equal(namespaces.join, 0); /* the one that we are in already */
	namespaces_close(&namespaces);
	config.n_namespaces = 3;
	assert_int_equal(namespaces_open(&config, &namespaces, &err), -1);
	assert_non_null(strstr(err.text, "/proc/self/ns/net"));
	namespaces_close(&namespaces);
	list[2] = list[3];
	assert_int_equal(namespaces_open(&config, &namespaces, &err), -1);
	assert_non_null(strstr(err.text, "twice"));
	namespaces_close(&namespaces);
}

static void test_home(void **state)
{
	char directory[] = "/tmp/test-sandbox-XXXXXX";
	char *env[] = { (char *)"HOME=/set" };
	struct oci_user user = { .uid = 1000 };
	struct oci_process process = { .user = &user };
	int root, file;
	char *home;

	assert_non_null(mkdtemp(directory));
	root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	assert_string_equal(home = user_home(&process, root), "/");
	free(home);
	assert_int_equal(mkdirat(root, "etc", 0755), 0);
	file = openat(root, "etc/passwd", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(
		dprintf(file,
			"bad\na:x:1000\nb:x:01000x:1:::/no:\nc:x:1000:1:name:/home/c:/bin/sh\n") >
		0);
	close(file);
	assert_string_equal(home = user_home(&process, root), "/home/c");
	free(home);
	user.uid = 5;
	assert_string_equal(home = user_home(&process, root), "/");
	free(home);
	process.env = env;
	process.n_env = 1;
	assert_null(user_home(&process, root));
	unlinkat(root, "etc/passwd", 0);
	unlinkat(root, "etc", AT_REMOVEDIR);
	close(root);
	rmdir(directory);
}

static void test_program_errors(void **state)
{
	struct err err;

	process_error(&err, ENOENT, "x");
	assert_int_equal(err.code, ERR_PROGRAM_NOT_FOUND);
	process_error(&err, EACCES, "x");
	assert_int_equal(err.code, ERR_PROGRAM_DENIED);
	process_error(&err, ENOMEM, "x");
	assert_int_equal(err.code, ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_option_attributes),
		cmocka_unit_test(test_option_atime_is_one_field),
		cmocka_unit_test(test_option_propagation),
		cmocka_unit_test(test_options_refused),
		cmocka_unit_test(test_option_names_are_found),
		cmocka_unit_test(test_capability_sets),
		cmocka_unit_test(test_sysctl_names),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_home),
		cmocka_unit_test(test_program_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
