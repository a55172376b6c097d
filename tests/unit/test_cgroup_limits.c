/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits of config.json as texts for the files of cgroup v1 and v2, and paths out of cgroupsPath.
 */
#include "cgroup_fixture.h"

#include "cgroup/convert.h"
#include "cgroup/layout.h"
#include "cgroup/settings.h"
#include "cgroup/v2.h"
#include "cgroup/cgroup.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const struct limits_now fresh;

typedef int (*settings_fn)(const struct oci_linux_resources *, const struct limits_now *,
			   struct settings *, struct err *);

/* "file=value;file=value;…" of what is to be written. */
static char *flat(const struct settings *settings)
{
	char *all = xstrdup("");

	for (size_t i = 0; i < settings->count; i++) {
		char *longer = xasprintf("%s%s=%s;", all, settings->items[i].file,
					 settings->items[i].value);

		free(all);
		all = longer;
	}
	return all;
}

static void expect_now(settings_fn make, const struct limits_now *now, const char *json,
		       const char *expected)
{
	struct oci_linux_resources *r = resources_parse(json);
	struct settings settings = { 0 };
	struct err err = { 0 };
	char *text;

	if (make(r, now, &settings, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	text = flat(&settings);
	assert_string_equal(text, expected);
	free(text);
	settings_free(&settings);
	oci_linux_resources_free(r);
}

static void expect(settings_fn make, const char *json, const char *expected)
{
	expect_now(make, &fresh, json, expected);
}

static void refuse_now(settings_fn make, const struct limits_now *now, const char *json,
		       const char *message)
{
	struct oci_linux_resources *r = resources_parse(json);
	struct settings settings = { 0 };
	struct err err = { 0 };

	assert_int_equal(make(r, now, &settings, &err), -1);
	if (!strstr(err.text, message))
		fail_msg("%s: %s", json, err.text);
	assert_int_equal(settings.count, 0);
	oci_linux_resources_free(r);
}

static void refuse(settings_fn make, const char *json, const char *message)
{
	refuse_now(make, &fresh, json, message);
}

static void test_weights(void **state)
{
	/* computed with another implementation of logarithms */
	static const struct {
		uint64_t shares;
		unsigned int weight;
	} cases[] = { { 0, 1 },		{ 2, 1 },	  { 3, 2 },	     { 10, 4 },
		      { 512, 59 },	{ 1024, 100 },	  { 2048, 174 },     { 3072, 240 },
		      { 10240, 639 },	{ 100000, 4340 }, { 262143, 10000 }, { 262144, 10000 },
		      { 999999, 10000 } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(cpu_weight(cases[i].shares), cases[i].weight);
	for (uint64_t shares = 2; shares < 262144; shares += 7)
		assert_true(cpu_weight(shares) <= cpu_weight(shares + 7));
	assert_int_equal(io_weight(10), 1);
	assert_int_equal(io_weight(500), 4950);
	assert_int_equal(io_weight(1000), 10000);
}

static void test_nothing(void **state)
{
	struct settings settings;

	assert_int_equal(settings_v2(NULL, &fresh, &settings, NULL), 0);
	assert_int_equal(settings.count, 0);
	/* what docker sends when nothing is asked */
	expect(settings_v2,
	       "{\"memory\":{\"limit\":0,\"reservation\":0,\"kernel\":0},"
	       "\"cpu\":{\"shares\":0,\"quota\":0,\"period\":0},\"blockIO\":{\"weight\":0}}",
	       "");
	expect(settings_v1,
	       "{\"memory\":{\"limit\":0,\"disableOOMKiller\":false},\"cpu\":{\"cpus\":\"\"}}",
	       "memory.oom_control=0;");
}

static void test_memory(void **state)
{
	const struct limits_now now = { .memory_usage = 2000, .memory_limit = 1000 };

	expect(settings_v2, "{\"memory\":{\"limit\":4096,\"reservation\":1024}}",
	       "memory.max=4096;memory.low=1024;");
	expect(settings_v2, "{\"memory\":{\"limit\":4096,\"swap\":8192}}",
	       "memory.swap.max=4096;memory.max=4096;");
	expect(settings_v2, "{\"memory\":{\"limit\":4096,\"swap\":4096}}",
	       "memory.swap.max=0;memory.max=4096;");
	expect(settings_v2, "{\"memory\":{\"limit\":-1}}", "memory.swap.max=max;memory.max=max;");
	expect(settings_v2, "{\"memory\":{\"swap\":-1}}", "memory.swap.max=max;");
	expect_now(settings_v2, &now, "{\"memory\":{\"swap\":1500}}", "memory.swap.max=500;");
	refuse(settings_v2, "{\"memory\":{\"swap\":1500}}", "it needs memory.limit");
	refuse(settings_v2, "{\"memory\":{\"limit\":4096,\"swap\":4095}}", "cannot be less");
	refuse(settings_v1, "{\"memory\":{\"limit\":4096,\"swap\":4095}}", "cannot be less");
	refuse(settings_v2, "{\"memory\":{\"limit\":-2}}", "-1 for none");
	expect(settings_v2, "{\"memory\":{\"useHierarchy\":true}}", "");
	refuse(settings_v2, "{\"memory\":{\"useHierarchy\":false}}", "always counts");
	refuse(settings_v1, "{\"memory\":{\"useHierarchy\":false}}", "always counts");
	refuse(settings_v2, "{\"memory\":{\"swappiness\":0}}", "cgroup v2 has nothing like it");
	refuse(settings_v2, "{\"memory\":{\"disableOOMKiller\":true}}", "nothing like it");
	refuse_now(settings_v2, &now, "{\"memory\":{\"limit\":1999,\"checkBeforeUpdate\":true}}",
		   "2000 bytes are in use");
	expect_now(settings_v2, &now, "{\"memory\":{\"limit\":2000,\"checkBeforeUpdate\":true}}",
		   "memory.max=2000;");
	expect(settings_v1,
	       "{\"memory\":{\"limit\":4096,\"swap\":8192,\"reservation\":1,\"swappiness\":7,"
	       "\"disableOOMKiller\":true,\"kernelTCP\":5}}",
	       "memory.limit_in_bytes=4096;memory.memsw.limit_in_bytes=8192;"
	       "memory.soft_limit_in_bytes=1;memory.kmem.tcp.limit_in_bytes=5;memory.swappiness=7;"
	       "memory.oom_control=1;");
	expect(settings_v1, "{\"memory\":{\"limit\":-1}}",
	       "memory.limit_in_bytes=-1;memory.memsw.limit_in_bytes=-1;");
}

static void test_cpu(void **state)
{
	const struct limits_now now = { .cpu_quota = "7000" };

	expect(settings_v2,
	       "{\"cpu\":{\"shares\":1024,\"quota\":5000,\"period\":10000,\"burst\":100,"
	       "\"cpus\":\"0-1\",\"mems\":\"0\"}}",
	       "cpu.weight=100;cpu.max=5000 "
	       "10000;cpu.max.burst=100;cpuset.cpus=0-1;cpuset.mems=0;");
	expect(settings_v2, "{\"cpu\":{\"quota\":5000}}", "cpu.max=5000;");
	expect(settings_v2, "{\"cpu\":{\"quota\":-1}}", "cpu.max=max;");
	expect(settings_v2, "{\"cpu\":{\"period\":20000}}", "cpu.max=max 20000;");
	expect_now(settings_v2, &now, "{\"cpu\":{\"period\":20000}}", "cpu.max=7000 20000;");
	expect_now(settings_v2, &now, "{\"cpu\":{\"quota\":-1,\"period\":20000}}",
		   "cpu.max=max 20000;");
	expect(settings_v2, "{\"cpu\":{\"idle\":1,\"shares\":2}}", "cpu.weight=1;cpu.idle=1;");
	expect(settings_v2, "{\"cpu\":{\"idle\":0,\"shares\":2}}", "cpu.idle=0;cpu.weight=1;");
	refuse(settings_v2, "{\"cpu\":{\"realtimeRuntime\":5}}", "nothing like it");
	expect(settings_v1,
	       "{\"cpu\":{\"shares\":1024,\"quota\":-1,\"period\":10000,\"burst\":0,"
	       "\"realtimeRuntime\":5,\"realtimePeriod\":6,\"idle\":1}}",
	       "cpu.shares=1024;cpu.idle=1;cpu.cfs_period_us=10000;cpu.cfs_quota_us=-1;"
	       "cpu.cfs_burst_us=0;cpu.rt_period_us=6;cpu.rt_runtime_us=5;");
}

static void test_others(void **state)
{
	expect(settings_v2, "{\"pids\":{\"limit\":77}}", "pids.max=77;");
	expect(settings_v1, "{\"pids\":{\"limit\":-1}}", "pids.max=max;");
	expect(settings_v2, "{\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":9}]}",
	       "hugetlb.2MB.max=9;hugetlb.2MB.rsvd.max=9;");
	expect(settings_v1, "{\"hugepageLimits\":[{\"pageSize\":\"2MB\",\"limit\":9}]}",
	       "hugetlb.2MB.limit_in_bytes=9;hugetlb.2MB.rsvd.limit_in_bytes=9;");
	expect(settings_v2, "{\"rdma\":{\"mlx5_1\":{\"hcaHandles\":3,\"hcaObjects\":4}}}",
	       "rdma.max=mlx5_1 hca_handle=3 hca_object=4;");
	expect(settings_v2,
	       "{\"blockIO\":{\"weight\":500,\"throttleReadBpsDevice\":"
	       "[{\"major\":8,\"minor\":0,\"rate\":600}],\"throttleWriteIOPSDevice\":"
	       "[{\"major\":8,\"minor\":16,\"rate\":0}]}}",
	       "io.bfq.weight=500;io.max=8:0 rbps=600;io.max=8:16 wiops=max;");
	expect(settings_v1,
	       "{\"blockIO\":{\"weight\":500,\"leafWeight\":10,\"weightDevice\":"
	       "[{\"major\":8,\"minor\":0,\"weight\":20}]}}",
	       "blkio.weight=500;blkio.leaf_weight=10;blkio.weight_device=8:0 20;");
	refuse(settings_v2, "{\"blockIO\":{\"leafWeight\":10}}", "nothing like it");
	expect(settings_v1,
	       "{\"network\":{\"classID\":1048577,\"priorities\":"
	       "[{\"name\":\"eth0\",\"priority\":5}]}}",
	       "net_cls.classid=1048577;net_prio.ifpriomap=eth0 5;");
	refuse(settings_v2, "{\"network\":{\"classID\":1}}", "nftables");
}

static void put(int dirfd, const char *file, const char *text)
{
	struct err err = { 0 };

	if (file_replace(dirfd, file, text, strlen(text), 0600, &err) < 0)
		fail_msg("%s", err.text);
}

/* A directory that is as a v2 hierarchy without the controllers of pids and memory. */
static int make_hierarchy(char *mount)
{
	int dirfd;

	assert_non_null(mkdtemp(mount));
	dirfd = open(mount, O_RDONLY | O_DIRECTORY);
	assert_true(dirfd >= 0);
	put(dirfd, "cgroup.controllers", "io\n");
	put(dirfd, "cgroup.subtree_control", "");
	assert_int_equal(mkdirat(dirfd, "c", 0700), 0);
	put(dirfd, "c/cgroup.controllers", "");
	put(dirfd, "c/cgroup.type", "domain\n");
	return dirfd;
}

/* Without a controller there is no limit, which is what "unlimited" asks for. */
static void test_unlimited_needs_no_controller(void **state)
{
	static const char *const unlimited =
		"{\"pids\":{\"limit\":-1},\"memory\":{\"limit\":-1,\"swap\":-1},"
		"\"cpu\":{\"quota\":-1}}";
	char mount[] = "/tmp/moat-test-hierarchy-XXXXXX";
	struct oci_linux_resources *none = resources_parse(unlimited);
	struct oci_linux_resources *some = resources_parse("{\"pids\":{\"limit\":5}}");
	struct err err = { 0 };
	int dirfd = make_hierarchy(mount);
	char *text;

	assert_int_equal(v2_adopt(mount, "/c", some, &err), -1);
	assert_non_null(strstr(err.text, "'pids', which is not in"));
	if (v2_adopt(mount, "/c", none, &err) < 0)
		fail_msg("%s", err.text);
	put(dirfd, "c/cgroup.controllers", "pids memory\n");
	put(dirfd, "c/pids.max", "5\n");
	if (v2_update(mount, "/c", none, &err) < 0)
		fail_msg("%s", err.text);
	text = file_read(dirfd, "c/pids.max", 100, NULL, NULL);
	assert_string_equal(text, "max");
	free(text);
	oci_linux_resources_free(none);
	oci_linux_resources_free(some);
	close(dirfd);
	assert_int_equal(path_remove_tree(AT_FDCWD, mount, &err), 0);
}

static void test_unified(void **state)
{
	struct oci_linux_resources *r =
		resources_parse("{\"unified\":{\"memory.high\":\"5\",\"cgroup.max.depth\":\"2\"}}");
	struct settings settings;

	assert_int_equal(settings_v2(r, &fresh, &settings, NULL), 0);
	assert_int_equal(settings.count, 2);
	for (size_t i = 0; i < 2; i++) {
		if (str_eq(settings.items[i].file, "memory.high"))
			assert_string_equal(settings.items[i].controller, "memory");
		else
			assert_null(settings.items[i].controller);
	}
	settings_free(&settings);
	oci_linux_resources_free(r);
	expect(settings_v2, "{\"unified\":{\"io.max\":\"8:0 rbps=1\\n8:16 rbps=2\\n\"}}",
	       "io.max=8:0 rbps=1;io.max=8:16 rbps=2;");
	refuse(settings_v2, "{\"unified\":{\"../cgroup.procs\":\"1\"}}",
	       "name of a cgroup v2 file");
	refuse(settings_v2, "{\"unified\":{\"..\":\"1\"}}", "name of a cgroup v2 file");
	refuse(settings_v1, "{\"unified\":{\"memory.high\":\"1\"}}", "this machine runs v1");
}

static void test_lists(void **state)
{
	assert_true(list_has("cpu,cpuacct", "cpu"));
	assert_true(list_has("cpu,cpuacct", "cpuacct"));
	assert_false(list_has("cpuset cpuacct\n", "cpu"));
	assert_true(list_has("cpuset cpu memory\n", "memory"));
	assert_false(list_has("", "cpu"));
}

static void expect_path(const char *given, const char *expected)
{
	struct oci_linux linux_section = { .cgroups_path = (char *)given };
	struct err err = { 0 };
	char *path = cgroup_resolve(&linux_section, "id", &err);

	if (!expected) {
		assert_null(path);
		assert_non_null(strstr(err.text, "cgroupsPath"));
		return;
	}
	if (!path)
		fail_msg("%s", err.text);
	assert_string_equal(path, expected);
	free(path);
}

static void test_resolve(void **state)
{
	struct err err = { 0 };
	char *path;

	expect_path("/a/b", "/a/b");
	expect_path("//a///b//", "/a/b");
	expect_path("/", NULL);
	expect_path("//", NULL);
	expect_path("/a/../..", NULL);
	expect_path("../x", NULL);
	expect_path(".", NULL);
	if (cgroup_layout() == CGROUP_NONE)
		return;
	path = cgroup_resolve(NULL, "id", &err);
	if (!path)
		fail_msg("%s", err.text);
	assert_int_equal(path[0], '/');
	assert_true(str_ends_with(path, "/moat/id"));
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_unified),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_unlimited_needs_no_controller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
