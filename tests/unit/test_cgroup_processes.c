/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes in a real cgroup: entered, frozen, signalled, and ended with it. */
#include "cgroup_fixture.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void test_enter(void **state)
{
	const char *own_controllers = layout_get()->n_v1 ? layout_get()->v1[0].controllers : "";
	int pipefd[2];
	char text[256] = "";
	pid_t pid;

	fixture_need("cpuset");
	fixture_create("{\"cpu\":{\"cpus\":\"0\"}}");
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	if (pid == 0) {
		struct err err = { 0 };
		char *own;

		if (cgroup_enter(fixture_path, 0, &err) < 0)
			dprintf(pipefd[1], "%s", err.text);
		own = layout_own(own_controllers, &err);
		dprintf(pipefd[1], "%s", own ? own : err.text);
		_exit(0);
	}
	assert_int_equal(proc_wait(pid), 0);
	close(pipefd[1]);
	assert_true(read(pipefd[0], text, sizeof(text) - 1) > 0);
	close(pipefd[0]);
	assert_string_equal(text, fixture_path);
	fixture_remove();
}

static void test_enter_another(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	fixture_need(NULL);
	fixture_create(NULL);
	pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	if (cgroup_enter(fixture_path, pid, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(cgroup_signal(fixture_path, SIGTERM, &err), 0);
	assert_int_equal(proc_wait(pid), 128 + SIGTERM);
	fixture_remove();
}

static void test_clone_into(void **state)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	_cleanup_fd_ int fd = -1;
	pid_t pid;

	fixture_need(NULL);
	if (cgroup_layout() == CGROUP_V1)
		skip();
	fixture_create(NULL);
	fd = cgroup_open(fixture_path);
	assert_true(fd >= 0);
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		struct err err = { 0 };
		char *own = layout_own("", &err);

		if (!own || !str_eq(own, fixture_path) || cgroup_enter(fixture_path, 0, &err) < 0)
			_exit(1);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(proc_wait(pid), 0);
	fixture_remove();
}

static void test_busy(void **state)
{
	struct err err = { 0 };
	pid_t pid;

	fixture_need(NULL);
	fixture_create(NULL);
	fixture_create(NULL); /* empty: taken over */
	pid = fixture_child(SLEEPS);
	assert_int_equal(cgroup_create(fixture_path, NULL, &err), -1);
	assert_non_null(strstr(err.text, "has processes in it"));
	assert_true(fixture_exists());
	fixture_remove();
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

	fixture_need(NULL);
	if (cgroup_layout() == CGROUP_V1)
		fixture_need("freezer");
	fixture_create(NULL);
	pid = fixture_child(SPINS);
	if (cgroup_freeze(fixture_path, true, &err) < 0)
		fail_msg("%s", err.text);
	before = spent(pid);
	usleep(50000);
	assert_int_equal(spent(pid), before);
	if (cgroup_freeze(fixture_path, false, &err) < 0)
		fail_msg("%s", err.text);
	for (int i = 0; i < 1000 && spent(pid) == before; i++)
		usleep(10000);
	assert_true(spent(pid) > before);
	/* removing it while frozen does not hang */
	assert_int_equal(cgroup_freeze(fixture_path, true, &err), 0);
	fixture_remove();
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
}

static void test_kill_tree(void **state)
{
	const struct layout *layout = layout_get();
	struct err err = { 0 };
	char *dir, *deep;
	pid_t pid;

	fixture_need(NULL);
	fixture_create(NULL);
	pid = fixture_child(FORKS);
	/* what a container may have made below, deeper than recursion would like */
	dir = tree_directory(layout->unified ? layout->unified : layout->v1[0].mount, fixture_path);
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
	assert_int_equal(cgroup_signal(fixture_path, SIGKILL, &err), 0);
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
	fixture_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enter),	   cmocka_unit_test(test_enter_another),
		cmocka_unit_test(test_clone_into), cmocka_unit_test(test_busy),
		cmocka_unit_test(test_freeze),	   cmocka_unit_test(test_kill_tree),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
