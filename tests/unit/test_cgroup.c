/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Real cgroups, on whatever layout this machine has: made, limited, changed. Without the right to
 * make any the tests are skipped.
 */
#include "cgroup_fixture.h"

#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_limits(void **state)
{
	bool v2 = cgroup_layout() == CGROUP_V2;

	fixture_need("memory");
	fixture_need("pids");
	fixture_need("cpu");
	fixture_create("{\"memory\":{\"limit\":67108864},\"pids\":{\"limit\":33},"
		       "\"cpu\":{\"shares\":512,\"quota\":20000,\"period\":50000}}");
	fixture_expect("memory", v2 ? "memory.max" : "memory.limit_in_bytes", "67108864");
	fixture_expect("pids", "pids.max", "33");
	if (v2) {
		fixture_expect("cpu", "cpu.max", "20000 50000");
		fixture_expect("cpu", "cpu.weight", "59");
	} else {
		fixture_expect("cpu", "cpu.cfs_quota_us", "20000");
		fixture_expect("cpu", "cpu.shares", "512");
	}
	fixture_remove();
	fixture_remove();
}

static void test_update(void **state)
{
	struct oci_linux_resources *r;
	struct err err = { 0 };
	bool v2 = cgroup_layout() == CGROUP_V2;

	fixture_need("memory");
	fixture_need("cpu");
	fixture_create(
		"{\"memory\":{\"limit\":67108864},\"cpu\":{\"quota\":20000,\"period\":50000}}");
	r = resources_parse("{\"memory\":{\"limit\":134217728},\"cpu\":{\"period\":100000}}");
	if (cgroup_update(fixture_path, r, &err) < 0)
		fail_msg("%s", err.text);
	fixture_expect("memory", v2 ? "memory.max" : "memory.limit_in_bytes", "134217728");
	if (v2)
		fixture_expect("cpu", "cpu.max", "20000 100000");
	else
		fixture_expect("cpu", "cpu.cfs_period_us", "100000");
	oci_linux_resources_free(r);
	fixture_remove();
}

static void test_swap_in_any_order(void **state)
{
	struct oci_linux_resources *r;
	struct err err = { 0 };

	fixture_need("memory");
	if (cgroup_layout() == CGROUP_V2 || access("/proc/swaps", F_OK) < 0)
		skip();
	fixture_create("{\"memory\":{\"limit\":67108864,\"swap\":67108864}}");
	r = resources_parse("{\"memory\":{\"limit\":134217728,\"swap\":268435456}}");
	if (cgroup_update(fixture_path, r, &err) < 0)
		fail_msg("%s", err.text);
	fixture_expect("memory", "memory.limit_in_bytes", "134217728");
	fixture_expect("memory", "memory.memsw.limit_in_bytes", "268435456");
	oci_linux_resources_free(r);
	fixture_remove();
}

static void refuse(const char *json, const char *message)
{
	struct oci_linux_resources *r = resources_parse(json);
	struct err err = { 0 };

	assert_int_equal(cgroup_create(fixture_path, r, &err), -1);
	if (!strstr(err.text, message))
		fail_msg("%s", err.text);
	assert_false(fixture_exists());
	oci_linux_resources_free(r);
}

static void test_refusals(void **state)
{
	fixture_need("cpuset");
	refuse("{\"cpu\":{\"cpus\":\"4000-4001\"}}", "cpuset.cpus");
	refuse("{\"cpu\":{\"cpus\":\"nonsense\"}}", "cpuset.cpus");
	refuse("{\"rdma\":{\"no-such-card\":{\"hcaHandles\":3}}}", "rdma");
	refuse("{\"hugepageLimits\":[{\"pageSize\":\"3MB\",\"limit\":9}]}", "hugetlb");
	if (cgroup_layout() == CGROUP_V2)
		refuse("{\"unified\":{\"memory.no_such_file\":\"1\"}}", "does not have it");
	else
		refuse("{\"unified\":{\"memory.high\":\"1\"}}", "v1");
}

static void test_gone(void **state)
{
	struct err err = { 0 };

	fixture_need(NULL);
	assert_int_equal(cgroup_signal(fixture_path, SIGTERM, &err), 0);
	assert_int_equal(cgroup_remove(fixture_path, &err), 0);
	assert_int_equal(cgroup_freeze(fixture_path, true, &err), -1);
	assert_non_null(strstr(err.text, fixture_path));
}

/* A device that no rule names cannot be opened, the default ones can. */
static void test_devices(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	fixture_need(NULL);
	if (cgroup_layout() != CGROUP_V2)
		fixture_need("devices");
	if (access("/dev/kmsg", F_OK) < 0 || geteuid() != 0)
		skip();
	fixture_create("{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]}");
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(fixture_path, 0, &err) < 0)
			_exit(1);
		if (open("/dev/kmsg", O_RDONLY) >= 0 || errno != EPERM)
			_exit(2);
		if (open("/dev/null", O_RDWR) < 0)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(proc_wait(pid), 0);
	fixture_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_update),
		cmocka_unit_test(test_swap_in_any_order),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_devices),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
