/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which line of CRIU's log is given as the reason of a failure. */
#include "criu/reason.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

static char directory[] = "/tmp/moat-reason.XXXXXX";

static void expect(const char *log, const char *spoken, const char *expected)
{
	_cleanup_fd_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int memory = memfd_create("spoken", MFD_CLOEXEC);
	_cleanup_free_ char *reason = NULL;

	assert_true(dir >= 0 && memory >= 0);
	unlinkat(dir, "log", 0);
	if (log) {
		_cleanup_fd_ int fd = openat(dir, "log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		assert_int_equal(fd_write_full(fd, log, strlen(log)), 0);
	}
	assert_int_equal(fd_write_full(memory, spoken, strlen(spoken)), 0);
	reason = criu_reason(dir, "log", memory);
	unlinkat(dir, "log", 0);
	if (!expected)
		assert_null(reason);
	else
		assert_string_equal(reason ? reason : "none", expected);
}

static void test_reasons(void **state)
{
	expect(NULL, "", NULL);
	expect("", "", NULL);
	expect("(00.01) all is well\n", "", NULL);
	expect("(00.01) Warn  (criu/a.c:1): odd\n(00.02)     17: Error (criu/mount.c:9): mnt: "
	       "first\n"
	       "(00.03) Error (criu/b.c:2): second\n",
	       "", "mnt: first");
	/* What comes with every failure, or without one, is passed over. */
	expect("(00.01) Error (criu/rlimit.c:1): rlimit: Can't setup RLIMIT_NOFILE for self\n"
	       "(00.02) Error (criu/c.c:2): cause\n(00.03) Error (criu/cr-dump.c:3): Dumping "
	       "FAILED.\n",
	       "", "cause");
	expect("(00.03) Error (criu/cr-dump.c:3): Dumping FAILED.\n",
	       "Error (criu/v.c:1): vdso: x\n", "vdso: x");
	expect("(00.01) Error (criu/a.c:1): caf\xe9\x1b[1m\n", "", "caf\\xe9\\x1b[1m");
	expect("Error (criu/a.c:1", "Error (", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_reasons) };
	int r;

	if (!mkdtemp(directory))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return r;
}
