/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Real cgroups, on whatever layout this machine has: made, limited, entered, frozen, killed,
 * removed. Without the right to make any the tests are skipped.
 */
#include "base/fd.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/oom_tell.h"
#include "cgroup/layout.h"
#include "cgroup/stats.h"
#include "cgroup/tree.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cmocka.h>

static char path[64];

static struct oci_linux_resources *parse(const char *json)
{
	struct err err = { 0 };
	struct oci_linux_resources *r =
		oci_linux_resources_parse(json, strlen(json), "resources", &err);

	if (!r)
		fail_msg("%s", err.text);
	return r;
}

static void create(const char *json)
{
	struct oci_linux_resources *r = json ? parse(json) : NULL;
	struct err err = { 0 };

	if (cgroup_create(path, r, &err) < 0)
		fail_msg("%s", err.text);
	oci_linux_resources_free(r);
}

/* Where the file of a controller is: its hierarchy's, or the v2 one. */
static char *directory(const char *controller)
{
	const struct hierarchy *h = layout_find(layout_get(), controller);

	return tree_directory(h ? h->mount : layout_get()->unified, path);
}

static void expect_file(const char *controller, const char *file, const char *expected)
{
	char *dir = directory(controller), *name = xasprintf("%s/%s", dir, file);
	struct err err = { 0 };
	char *text = file_read(AT_FDCWD, name, 4096, NULL, &err);

	if (!text)
		fail_msg("%s", err.text);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, expected);
	free(text);
	free(name);
	free(dir);
}

static bool exists(void)
{
	const struct layout *layout = layout_get();
	bool found = false;

	for (size_t i = 0; i <= layout->n_v1; i++) {
		const char *mount = i < layout->n_v1 ? layout->v1[i].mount : layout->unified;
		char *dir = mount ? tree_directory(mount, path) : NULL;

		found = found || (dir && access(dir, F_OK) == 0);
		free(dir);
	}
	return found;
}

static void remove_it(void)
{
	struct err err = { 0 };

	if (cgroup_remove(path, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(exists());
}

enum kind { SLEEPS, FORKS, SPINS };

/* A child that has entered the cgroup. */
static pid_t sleeper(enum kind kind)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct err err = { 0 };

		if (cgroup_enter(path, 0, &err) < 0)
			_exit(1);
		if (kind == FORKS && fork() > 0)
			fork();
		(void)!write(ready[1], "x", 1);
		for (;;)
			if (kind != SPINS)
				pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static int setup(void **state)
{
	struct err err = { 0 };

	snprintf(path, sizeof(path), "/moat-unit-test/%d", (int)getpid());
	if (cgroup_create(path, NULL, &err) < 0) {
		print_message("no cgroup can be made here: %s\n", err.text);
		path[0] = '\0';
		return 0;
	}
	return cgroup_remove(path, NULL);
}

static int teardown(void **state)
{
	const struct layout *layout = layout_get();

	if (*path) /* where a test failed, it is still there */
		cgroup_remove(path, NULL);
	for (size_t i = 0; i <= layout->n_v1; i++) {
		const char *mount = i < layout->n_v1 ? layout->v1[i].mount : layout->unified;
		char *dir = mount ? tree_directory(mount, "moat-unit-test") : NULL;

		if (dir)
			rmdir(dir);
		free(dir);
	}
	return 0;
}

static void need(const char *controller)
{
	const struct layout *layout = layout_get();
	char *file, *list;

	if (!*path)
		skip();
	if (!controller || layout_find(layout, controller))
		return;
	if (layout->kind != CGROUP_V2)
		skip();
	file = xasprintf("%s/cgroup.controllers", layout->unified);
	list = file_read(AT_FDCWD, file, 4096, NULL, NULL);
	free(file);
	if (!list || !list_has(list, controller)) {
		free(list);
		skip();
	}
	free(list);
}

static void test_limits(void **state)
{
	bool v2 = cgroup_layout() == CGROUP_V2;

	need("memory");
	need("pids");
	need("cpu");
	create("{\"memory\":{\"limit\":67108864},\"pids\":{\"limit\":33},"
	       "\"cpu\":{\"shares\":512,\"quota\":20000,\"period\":50000}}");
	expect_file("memory", v2 ? "memory.max" : "memory.limit_in_bytes", "67108864");
	expect_file("pids", "pids.max", "33");
	if (v2) {
		expect_file("cpu", "cpu.max", "20000 50000");
		expect_file("cpu", "cpu.weight", "59");
	} else {
		expect_file("cpu", "cpu.cfs_quota_us", "20000");
		expect_file("cpu", "cpu.shares", "512");
	}
	remove_it();
	remove_it();
}

static void test_update(void **state)
{
	struct oci_linux_resources *r;
	struct err err = { 0 };
	bool v2 = cgroup_layout() == CGROUP_V2;

	need("memory");
	need("cpu");
	create("{\"memory\":{\"limit\":67108864},\"cpu\":{\"quota\":20000,\"period\":50000}}");
	r = parse("{\"memory\":{\"limit\":134217728},\"cpu\":{\"period\":100000}}");
	if (cgroup_update(path, r, &err) < 0)
		fail_msg("%s", err.text);
	expect_file("memory", v2 ? "memory.max" : "memory.limit_in_bytes", "134217728");
	if (v2)
		expect_file("cpu", "cpu.max", "20000 100000");
	else
		expect_file("cpu", "cpu.cfs_period_us", "100000");
	oci_linux_resources_free(r);
	remove_it();
}

static void test_swap_in_any_order(void **state)
{
	struct oci_linux_resources *r;
	struct err err = { 0 };

	need("memory");
	if (cgroup_layout() == CGROUP_V2 || access("/proc/swaps", F_OK) < 0)
		skip();
	create("{\"memory\":{\"limit\":67108864,\"swap\":67108864}}");
	r = parse("{\"memory\":{\"limit\":134217728,\"swap\":268435456}}");
	if (cgroup_update(path, r, &err) < 0)
		fail_msg("%s", err.text);
	expect_file("memory", "memory.limit_in_bytes", "134217728");
	expect_file("memory", "memory.memsw.limit_in_bytes", "268435456");
	oci_linux_resources_free(r);
	remove_it();
}

static void refuse(const char *json, const char *message)
{
	struct oci_linux_resources *r = parse(json);
	struct err err = { 0 };

	assert_int_equal(cgroup_create(path, r, &err), -1);
	if (!strstr(err.text, message))
		fail_msg("%s", err.text);
	assert_false(exists());
	oci_linux_resources_free(r);
}

static void test_refusals(void **state)
{
	need("cpuset");
	refuse("{\"cpu\":{\"cpus\":\"4000-4001\"}}", "cpuset.cpus");
	refuse("{\"cpu\":{\"cpus\":\"nonsense\"}}", "cpuset.cpus");
	refuse("{\"rdma\":{\"no-such-card\":{\"hcaHandles\":3}}}", "rdma");
	refuse("{\"hugepageLimits\":[{\"pageSize\":\"3MB\",\"limit\":9}]}", "hugetlb");
	if (cgroup_layout() == CGROUP_V2)
		refuse("{\"unified\":{\"memory.no_such_file\":\"1\"}}", "does not have it");
	else
		refuse("{\"unified\":{\"memory.high\":\"1\"}}", "v1");
}

static void test_enter(void **state)
{
	const char *own_controllers = layout_get()->n_v1 ? layout_get()->v1[0].controllers : "";
	int pipefd[2];
	char text[256] = "";
	pid_t pid;

	need("cpuset");
	create("{\"cpu\":{\"cpus\":\"0\"}}");
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	if (pid == 0) {
		struct err err = { 0 };
		char *own;

		if (cgroup_enter(path, 0, &err) < 0)
			dprintf(pipefd[1], "%s", err.text);
		own = layout_own(own_controllers, &err);
		dprintf(pipefd[1], "%s", own ? own : err.text);
		_exit(0);
	}
	assert_int_equal(proc_wait(pid), 0);
	close(pipefd[1]);
	assert_true(read(pipefd[0], text, sizeof(text) - 1) > 0);
	close(pipefd[0]);
	assert_string_equal(text, path);
	remove_it();
}

static void test_enter_another(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	need(NULL);
	create(NULL);
	pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	if (cgroup_enter(path, pid, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(cgroup_signal(path, SIGTERM, &err), 0);
	assert_int_equal(proc_wait(pid), 128 + SIGTERM);
	remove_it();
}

static void test_clone_into(void **state)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	_cleanup_fd_ int fd = -1;
	pid_t pid;

	need(NULL);
	if (cgroup_layout() == CGROUP_V1)
		skip();
	create(NULL);
	fd = cgroup_open(path);
	assert_true(fd >= 0);
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		struct err err = { 0 };
		char *own = layout_own("", &err);

		if (!own || !str_eq(own, path) || cgroup_enter(path, 0, &err) < 0)
			_exit(1);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(proc_wait(pid), 0);
	remove_it();
}

static void test_busy(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	need(NULL);
	create(NULL);
	create(NULL); /* empty: taken over */
	pid = sleeper(SLEEPS);
	assert_int_equal(cgroup_create(path, NULL, &err), -1);
	assert_non_null(strstr(err.text, "has processes in it"));
	assert_true(exists());
	remove_it();
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
}

/* CPU time of a process in ticks. */
static uint64_t spent(pid_t pid)
{
	char *name = xasprintf("/proc/%d/schedstat", (int)pid);
	char *text = file_read(AT_FDCWD, name, 4096, NULL, NULL);
	uint64_t n = text ? strtoull(text, NULL, 10) : 0;

	free(text);
	free(name);
	return n;
}

static void test_freeze(void **state)
{
	struct err err = { 0 };
	uint64_t before;
	pid_t pid;

	need(NULL);
	if (cgroup_layout() == CGROUP_V1)
		need("freezer");
	create(NULL);
	pid = sleeper(SPINS);
	if (cgroup_freeze(path, true, &err) < 0)
		fail_msg("%s", err.text);
	before = spent(pid);
	usleep(50000);
	assert_int_equal(spent(pid), before);
	if (cgroup_freeze(path, false, &err) < 0)
		fail_msg("%s", err.text);
	for (int i = 0; i < 1000 && spent(pid) == before; i++)
		usleep(10000);
	assert_true(spent(pid) > before);
	/* removing it while frozen does not hang */
	assert_int_equal(cgroup_freeze(path, true, &err), 0);
	remove_it();
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
}

static void test_kill_tree(void **state)
{
	const struct layout *layout = layout_get();
	struct err err = { 0 };
	char *dir, *deep;
	pid_t pid;

	need(NULL);
	create(NULL);
	pid = sleeper(FORKS);
	/* what a container may have made below, deeper than recursion would like */
	dir = tree_directory(layout->unified ? layout->unified : layout->v1[0].mount, path);
	deep = dir;
	for (int i = 0; i < 300; i++) {
		char *next = xasprintf("%s/d", deep);

		if (mkdir(next, 0755) < 0) {
			free(next);
			break;
		}
		free(deep);
		deep = next;
	}
	free(deep);
	assert_int_equal(cgroup_signal(path, SIGKILL, &err), 0);
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
	remove_it();
}

static void test_gone(void **state)
{
	struct err err = { 0 };

	need(NULL);
	assert_int_equal(cgroup_signal(path, SIGTERM, &err), 0);
	assert_int_equal(cgroup_remove(path, &err), 0);
	assert_int_equal(cgroup_freeze(path, true, &err), -1);
	assert_non_null(strstr(err.text, path));
}

/* A device that no rule names cannot be opened, the default ones can. */
static void test_devices(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	need(NULL);
	if (cgroup_layout() != CGROUP_V2)
		need("devices");
	if (access("/dev/kmsg", F_OK) < 0 || geteuid() != 0)
		skip();
	create("{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]}");
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(path, 0, &err) < 0)
			_exit(1);
		if (open("/dev/kmsg", O_RDONLY) >= 0 || errno != EPERM)
			_exit(2);
		if (open("/dev/null", O_RDWR) < 0)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(proc_wait(pid), 0);
	remove_it();
}

/* A child that tells of a lack of memory in the cgroup when it gets a byte. */
static pid_t teller(int *go)
{
	int ready[2], wait[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(wait), 0);
	pid = fork();
	if (pid == 0) {
		struct oom_teller teller = OOM_TELLER_NONE;
		struct err err = { 0 };

		if (cgroup_enter(path, 0, &err) < 0 ||
		    oom_teller_open(&teller, path, NULL, &err) < 0)
			_exit(1);
		(void)!write(ready[1], "x", 1);
		(void)!read(wait[0], &byte, 1);
		oom_teller_tell(&teller);
		oom_teller_close(&teller);
		_exit(7);
	}
	close(ready[1]);
	close(wait[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*go = wait[1];
	return pid;
}

static void let_tell(pid_t pid, int go)
{
	assert_int_equal(write(go, "x", 1), 1);
	close(go);
	assert_int_equal(proc_wait(pid), 7);
}

/* As engines see it: the kernel's word that memory ran out, and its count. */
static void test_tell_oom(void **state)
{
	struct err err = { 0 };
	struct pollfd watched = { .events = POLLIN };
	struct oci_linux_resources *r;
	int go, count;
	pid_t pid;

	need("memory");
	create("{\"memory\":{\"limit\":201326592}}");
	pid = teller(&go);
	/* The limit that is there afterwards is that of now. */
	r = parse("{\"memory\":{\"limit\":100663296}}");
	if (cgroup_update(path, r, &err) < 0)
		fail_msg("%s", err.text);
	oci_linux_resources_free(r);
	watched.fd = cgroup_oom_watch(path, &err);
	count = cgroup_oom_open(path, &err);
	assert_true(watched.fd >= 0 && count >= 0);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 1);
	assert_int_equal(poll(&watched, 1, 0), 1);
	expect_file("memory", cgroup_layout() == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes",
		    "100663296");
	close(watched.fd);
	close(count);
	remove_it();
}

/* Nor is the one that tells, where all of a cgroup are to be killed with one. */
static void test_tell_oom_in_a_group(void **state)
{
	int go, count;
	pid_t pid;

	need("memory");
	if (cgroup_layout() != CGROUP_V2)
		skip();
	create("{\"unified\":{\"memory.oom.group\":\"1\"}}");
	pid = teller(&go);
	count = cgroup_oom_open(path, NULL);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 1);
	close(count);
	remove_it();
}

/* Others are not taken along. */
static void test_tell_oom_beside_others(void **state)
{
	pid_t other, pid;
	int go, count;

	need("memory");
	create(NULL);
	pid = teller(&go);
	other = sleeper(SLEEPS);
	count = cgroup_oom_open(path, NULL);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 0);
	close(count);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(proc_wait(other), 128 + SIGKILL);
	remove_it();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_update),
		cmocka_unit_test(test_swap_in_any_order),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_enter),
		cmocka_unit_test(test_enter_another),
		cmocka_unit_test(test_clone_into),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_freeze),
		cmocka_unit_test(test_kill_tree),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_tell_oom),
		cmocka_unit_test(test_tell_oom_in_a_group),
		cmocka_unit_test(test_tell_oom_beside_others),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
