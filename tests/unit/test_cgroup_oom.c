/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Telling of a lack of memory in a real cgroup, as engines look for it. */
#include "cgroup_fixture.h"

#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "cgroup/oom_tell.h"
#include "cgroup/stats.h"
#include "oci/config.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

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

		if (cgroup_enter(fixture_path, 0, &err) < 0 ||
		    oom_teller_open(&teller, fixture_path, NULL, &err) < 0)
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

	fixture_need("memory");
	fixture_create("{\"memory\":{\"limit\":201326592}}");
	pid = teller(&go);
	/* The limit that is there afterwards is that of now. */
	r = resources_parse("{\"memory\":{\"limit\":100663296}}");
	if (cgroup_update(fixture_path, r, &err) < 0)
		fail_msg("%s", err.text);
	oci_linux_resources_free(r);
	watched.fd = cgroup_oom_watch(fixture_path, &err);
	count = cgroup_oom_open(fixture_path, &err);
	assert_true(watched.fd >= 0 && count >= 0);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 1);
	assert_int_equal(poll(&watched, 1, 0), 1);
	fixture_expect("memory",
		       cgroup_layout() == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes",
		       "100663296");
	close(watched.fd);
	close(count);
	fixture_remove();
}

/* Nor is the one that tells, where all of a cgroup are to be killed with one. */
static void test_tell_oom_in_a_group(void **state)
{
	int go, count;
	pid_t pid;

	fixture_need("memory");
	if (cgroup_layout() != CGROUP_V2)
		skip();
	fixture_create("{\"unified\":{\"memory.oom.group\":\"1\"}}");
	pid = teller(&go);
	count = cgroup_oom_open(fixture_path, NULL);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 1);
	close(count);
	fixture_remove();
}

/* Others are not taken along. */
static void test_tell_oom_beside_others(void **state)
{
	pid_t other, pid;
	int go, count;

	fixture_need("memory");
	fixture_create(NULL);
	pid = teller(&go);
	other = fixture_child(SLEEPS);
	count = cgroup_oom_open(fixture_path, NULL);
	let_tell(pid, go);
	assert_int_equal(cgroup_oom_read(count), 0);
	close(count);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(proc_wait(other), 128 + SIGKILL);
	fixture_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tell_oom),
		cmocka_unit_test(test_tell_oom_in_a_group),
		cmocka_unit_test(test_tell_oom_beside_others),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
