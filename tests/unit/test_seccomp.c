/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Seccomp filters, loaded in children that then make system calls. */
#include "seccomp_filters.h"

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <cmocka.h>

/* Runs `body` in a child under the filter; returns the status as proc_wait() does. */
static int under(const char *json, int (*body)(int listener))
{
	struct seccomp_filter filter = compile(json, NULL);
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct err err = { 0 };
		int listener;

		signal(SIGSYS, SIG_DFL); /* cmocka catches it */
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (seccomp_filter_load(&filter, &listener, &err) < 0) {
			dprintf(2, "%s\n", err.text);
			_exit(99);
		}
		_exit(body(listener));
	}
	status = proc_wait(pid);
	seccomp_filter_free(&filter);
	return status;
}

static int errno_of_getppid(int listener)
{
	return syscall(SYS_getppid) < 0 ? errno : 0;
}

static void test_actions(void **state)
{
	assert_int_equal(under(ONE("SCMP_ACT_ERRNO", ""), errno_of_getppid), EPERM);
	assert_int_equal(under(ONE("SCMP_ACT_ERRNO", ",\"errnoRet\":38"), errno_of_getppid),
			 ENOSYS);
	assert_int_equal(under(ONE("SCMP_ACT_LOG", ""), errno_of_getppid), 0);
	assert_int_equal(under(ONE("SCMP_ACT_ALLOW", ""), errno_of_getppid), 0);
	assert_int_equal(under(ONE("SCMP_ACT_TRACE", ""), errno_of_getppid), ENOSYS);
	assert_int_equal(under(ONE("SCMP_ACT_KILL_PROCESS", ""), errno_of_getppid), 128 + SIGSYS);
	assert_int_equal(under(ONE("SCMP_ACT_KILL", ""), errno_of_getppid), 128 + SIGSYS);
	assert_int_equal(under(ONE("SCMP_ACT_KILL_THREAD", ""), errno_of_getppid), 128 + SIGSYS);
	assert_int_equal(under(ONE("SCMP_ACT_TRAP", ""), errno_of_getppid), 128 + SIGSYS);
}

static int has_listener(int listener)
{
	return listener >= 0 && fcntl(listener, F_GETFD) == FD_CLOEXEC ? 7 : 1;
}

static void test_notify(void **state)
{
	assert_int_equal(under(ONE("SCMP_ACT_NOTIFY", ""), has_listener), 7);
}

static void test_notify_answered(void **state)
{
	struct seccomp_filter filter = compile(ONE("SCMP_ACT_NOTIFY", ""), NULL);
	struct seccomp_notif_resp response = { .error = -EXDEV };
	struct seccomp_notif request;
	int pair[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	pid = fork();
	if (pid == 0) {
		int listener;

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (seccomp_filter_load(&filter, &listener, NULL) < 0)
			_exit(99);
		fd_send(pair[1], "x", 1, &listener, 1);
		_exit(syscall(SYS_getppid) < 0 ? errno : 0);
	}
	assert_int_equal(fd_receive(pair[0], &byte, 1, &fd, 1), 1);
	memset(&request, 0, sizeof(request));
	assert_int_equal(ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &request), 0);
	assert_int_equal(request.data.nr, SYS_getppid);
	response.id = request.id;
	assert_int_equal(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &response), 0);
	assert_int_equal(proc_wait(pid), EXDEV);
	close(fd);
	close(pair[0]);
	close(pair[1]);
	seccomp_filter_free(&filter);
}

/* getppid stands for any call: the filter sees its first argument all the same. */
static void expect_operator(const char *op, uint64_t value, uint64_t two, uint64_t argument,
			    bool matches)
{
	char *json = xasprintf("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":["
			       "\"getppid\"],\"action\":\"SCMP_ACT_KILL_PROCESS\",\"args\":[{"
			       "\"index\":0,\"value\":%llu,\"valueTwo\":%llu,\"op\":\"%s\"}]}]}",
			       (unsigned long long)value, (unsigned long long)two, op);
	struct seccomp_filter filter = compile(json, NULL);

	free(json);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, argument),
			 matches ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
	seccomp_filter_free(&filter);
}

static void test_operators(void **state)
{
	const uint64_t big = 0x100000005u;

	expect_operator("SCMP_CMP_EQ", big, 0, big, true);
	expect_operator("SCMP_CMP_EQ", big, 0, 5, false);
	expect_operator("SCMP_CMP_NE", big, 0, 5, true);
	expect_operator("SCMP_CMP_NE", big, 0, big, false);
	expect_operator("SCMP_CMP_LT", big, 0, big - 1, true);
	expect_operator("SCMP_CMP_LT", big, 0, big, false);
	expect_operator("SCMP_CMP_LE", big, 0, big, true);
	expect_operator("SCMP_CMP_LE", big, 0, big + 1, false);
	expect_operator("SCMP_CMP_GE", big, 0, big, true);
	expect_operator("SCMP_CMP_GE", big, 0, big - 1, false);
	expect_operator("SCMP_CMP_GT", big, 0, big + 1, true);
	expect_operator("SCMP_CMP_GT", big, 0, big, false);
	expect_operator("SCMP_CMP_MASKED_EQ", 0xf0, 0x30, 0x3f, true);
	expect_operator("SCMP_CMP_MASKED_EQ", 0xf0, 0x30, 0x4f, false);
}

/* Two conditions on one argument are alternatives, on two they are all needed. */
static void test_conditions(void **state)
{
	struct seccomp_filter filter = compile(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"getppid\"],"
		"\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
		"{\"index\":0,\"value\":3,\"op\":\"SCMP_CMP_EQ\"},"
		"{\"index\":0,\"value\":5,\"op\":\"SCMP_CMP_EQ\"}]}]}",
		NULL);

	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 3), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 5), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 4), SECCOMP_RET_ERRNO | EPERM);
	seccomp_filter_free(&filter);
	filter = compile("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":["
			 "\"getppid\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
			 "{\"index\":0,\"value\":3,\"op\":\"SCMP_CMP_EQ\"},"
			 "{\"index\":1,\"value\":5,\"op\":\"SCMP_CMP_EQ\"}]}]}",
			 NULL);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 3), SECCOMP_RET_ERRNO | EPERM);
	seccomp_filter_free(&filter);
}

static char *profile_of(const char *action, const char *more)
{
	return xasprintf("{\"defaultAction\":\"%s\"%s,\"architectures\":[\"SCMP_ARCH_X86_64\","
			 "\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"],\"syscalls\":[{\"names\":["
			 "\"getppid\",\"openat2\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
			 action, more);
}

static void test_newer_calls(void **state)
{
	const uint32_t x32 = 0x40000000u, refused = SECCOMP_RET_ERRNO | EPERM,
		       unknown = SECCOMP_RET_ERRNO | ENOSYS;
	char *json = profile_of("SCMP_ACT_ERRNO", "");
	struct seccomp_filter filter = compile(json, NULL);

	free(json);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, SYS_openat2, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, SYS_openat2 - 1, 0), refused);
	assert_int_equal(answer(&filter, NATIVE, SYS_openat2 + 1, 0), unknown);
	assert_int_equal(answer(&filter, NATIVE, x32 + SYS_openat2, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, x32 + SYS_openat2 - 1, 0), refused);
	assert_int_equal(answer(&filter, NATIVE, x32 + 5000, 0), unknown);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 437, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 436, 0), refused);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 438, 0), unknown);
	assert_int_equal(answer(&filter, AUDIT_ARCH_ARM, 438, 0), SECCOMP_RET_KILL_THREAD);
	seccomp_filter_free(&filter);

	json = profile_of("SCMP_ACT_LOG", "");
	filter = compile(json, NULL);
	free(json);
	assert_int_equal(answer(&filter, NATIVE, SYS_openat2 + 1, 0), SECCOMP_RET_LOG);
	seccomp_filter_free(&filter);

	json = profile_of("SCMP_ACT_ERRNO", ",\"defaultErrnoRet\":5");
	filter = compile(json, NULL);
	free(json);
	assert_int_equal(answer(&filter, NATIVE, SYS_openat2 - 1, 0), SECCOMP_RET_ERRNO | EIO);
	seccomp_filter_free(&filter);
}

static void test_other_architectures(void **state)
{
	struct seccomp_filter filter = compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\","
					       "\"architectures\":[\"SCMP_ARCH_AARCH64\","
					       "\"SCMP_ARCH_LOONGARCH64\"]}",
					       NULL);

	assert_int_equal(answer(&filter, NATIVE, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 0, 0), SECCOMP_RET_KILL_THREAD);
	/* x32 was not asked for */
	assert_int_equal(answer(&filter, NATIVE, 0x40000000u, 0), SECCOMP_RET_KILL_THREAD);
	seccomp_filter_free(&filter);
}

static void test_unknown_calls(void **state)
{
	struct seccomp_filter filter = compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":"
					       "[{\"names\":[\"no_such_call\",\"getppid\"],"
					       "\"action\":\"SCMP_ACT_KILL\"}]}",
					       NULL);

	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 0), SECCOMP_RET_KILL_THREAD);
	seccomp_filter_free(&filter);
}

static void refuse(const char *json, const char *message)
{
	struct seccomp_filter filter;
	struct err err = { 0 };

	assert_int_equal(seccomp_filter_compile(parse(json), NULL, &filter, &err), -1);
	if (!strstr(err.text, message))
		fail_msg("%s", err.text);
}

static void test_refusals(void **state)
{
	refuse(ONE("SCMP_ACT_ERRNO", ",\"errnoRet\":4096"), "4095");
	refuse("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":["
	       "{\"names\":[\"write\"],\"action\":\"SCMP_ACT_LOG\",\"args\":"
	       "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]},"
	       "{\"names\":[\"write\"],\"action\":\"SCMP_ACT_KILL\",\"args\":"
	       "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}",
	       "two rules for write contradict");
}

static void test_flags(void **state)
{
	struct seccomp_filter filter = compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":["
					       "\"SECCOMP_FILTER_FLAG_LOG\","
					       "\"SECCOMP_FILTER_FLAG_SPEC_ALLOW\","
					       "\"SECCOMP_FILTER_FLAG_TSYNC\"]}",
					       NULL);

	assert_int_equal(filter.flags, SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_SPEC_ALLOW |
					       SECCOMP_FILTER_FLAG_TSYNC);
	assert_false(filter.notify);
	seccomp_filter_free(&filter);
	assert_true(seccomp_flag_supported("SECCOMP_FILTER_FLAG_LOG"));
	assert_false(seccomp_flag_supported("SECCOMP_FILTER_FLAG_OTHER"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_actions),
		cmocka_unit_test(test_notify),
		cmocka_unit_test(test_notify_answered),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_newer_calls),
		cmocka_unit_test(test_other_architectures),
		cmocka_unit_test(test_unknown_calls),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
