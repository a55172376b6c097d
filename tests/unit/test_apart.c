/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is done in a child: its errors come back, its death is told, and it dies with its parent. */
#include "base/apart.h"
#include "base/proc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int value = 1;

static int succeed(const void *data, struct err *err)
{
	value = 2; /* its own */
	return *(const int *)data == 42 ? 0 : -1;
}

static int refuse(const void *data, struct err *err)
{
	return err_set(err, ENOENT, "open %s", (const char *)data);
}

static int die(const void *data, struct err *err)
{
	raise(SIGKILL);
	return 0;
}

static void test_results(void **state)
{
	struct err err = { 0 };
	int answer = 42;

	assert_int_equal(apart_run("try", succeed, &answer, &err), 0);
	assert_int_equal(value, 1);
	assert_int_equal(apart_run("try", refuse, "/x", &err), -1);
	assert_string_equal(err.text, "open /x: No such file or directory");
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(apart_run("try", die, NULL, &err), -1);
	assert_string_equal(err.text, "try: the process that was to do it ended");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}

/* Tells its id, and would stay for ever. */
static int stay(const void *data, struct err *err)
{
	pid_t pid = getpid();

	if (apart_bind(err) < 0 || write(*(const int *)data, &pid, sizeof(pid)) != sizeof(pid))
		return -1;
	for (;;)
		pause();
}

static void test_dies_with_its_parent(void **state)
{
	int ends[2], status;
	pid_t parent, child;
	char byte;

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(ends), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		close(ends[0]);
		_exit(apart_run("stay", stay, &ends[1], NULL) != 0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(proc_wait(parent), 128 + SIGKILL);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* all that had the other end are gone */
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_dies_with_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
