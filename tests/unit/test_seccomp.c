/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Seccomp filters, loaded in children that then make system calls; and the cache of compiled ones,
 * which must never hand out a filter that was not asked for.
 */
#include "base/fd.h"
#include "base/file.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_private.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

static struct oci_config *config;

/* The parser takes whole configurations, so a profile is put into one. */
static const struct oci_seccomp *parse(const char *json)
{
	char *text = xasprintf("{\"ociVersion\":\"1.0.0\",\"root\":{\"path\":\"r\"},\"linux\":{"
			       "\"seccomp\":%s}}",
			       json);
	struct err err = { 0 };

	oci_config_free(config);
	config = oci_config_parse(text, strlen(text), "config.json", &err);
	free(text);
	if (!config)
		fail_msg("%s", err.text);
	return config->linux_->seccomp;
}

static struct seccomp_filter compile(const char *json, const char *cache)
{
	struct seccomp_filter filter;
	struct err err = { 0 };

	if (seccomp_filter_compile(parse(json), cache, &filter, &err) < 0)
		fail_msg("%s", err.text);
	return filter;
}

/* What a program answers to a call: classic BPF, as far as filters use it. */
static uint32_t run(const struct seccomp_filter *filter, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < filter->count; pc++) {
		const struct sock_filter *i = &filter->insns[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + i->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %#x", i->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static uint32_t answer(const struct seccomp_filter *filter, uint32_t arch, uint32_t nr,
		       uint64_t argument)
{
	const struct seccomp_data data = { .nr = (int)nr, .arch = arch, .args = { argument } };

	return run(filter, &data);
}

#define NATIVE AUDIT_ARCH_X86_64

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

#define ONE(action, more)                                                                          \
	"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"getppid\"],"            \
	"\"action\":\"" action "\"" more "}],\"listenerPath\":\"/none\"}"

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

static char cache[] = "/tmp/moat-test-seccomp-XXXXXX";

static int make_cache(void **state)
{
	return mkdtemp(cache) ? 0 : -1;
}

static int remove_cache(void **state)
{
	oci_config_free(config);
	config = NULL;
	return path_remove_tree(AT_FDCWD, cache, NULL);
}

/* The path of the only entry, to be freed. */
static char *only_entry(void)
{
	DIR *dir = opendir(cache);
	struct dirent *entry;
	char *path = NULL;

	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_null(path);
		path = xasprintf("%s/%s", cache, entry->d_name);
	}
	closedir(dir);
	assert_non_null(path);
	return path;
}

/* With a program of one instruction in place of the real one, what comes from the cache shows. */
static void spoil(const char *path)
{
	struct seccomp_filter fake = { .count = 1 };
	struct seccomp_key key;
	int dirfd = open(cache, O_RDONLY | O_DIRECTORY);

	fake.insns = xcalloc(1, sizeof(*fake.insns));
	fake.insns[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	seccomp_key_make(config->linux_->seccomp, &key);
	assert_int_equal(unlink(path), 0);
	seccomp_cache_store(dirfd, &key, &fake);
	seccomp_key_free(&key);
	seccomp_filter_free(&fake);
	close(dirfd);
}

static bool from_cache(const char *json)
{
	struct seccomp_filter filter = compile(json, cache);
	bool spoilt = filter.count == 1;

	if (!spoilt)
		assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 0), SECCOMP_RET_ERRNO | 1);
	seccomp_filter_free(&filter);
	return spoilt;
}

static void test_cache(void **state)
{
	const char *json = ONE("SCMP_ACT_ERRNO", ",\"errnoRet\":1");
	char *path;
	struct stat st;

	assert_false(from_cache(json));
	path = only_entry();
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	spoil(path);
	assert_true(from_cache(json));

	/* cut short, or longer: made anew */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
	assert_false(from_cache(json));
	spoil(path);
	assert_int_equal(truncate(path, st.st_size + 8), 0);
	assert_false(from_cache(json));
	spoil(path);
	assert_int_equal(truncate(path, 0), 0);
	assert_false(from_cache(json));

	/* an entry or a directory that others can write to */
	spoil(path);
	assert_int_equal(chmod(path, 0622), 0);
	assert_false(from_cache(json));
	spoil(path);
	assert_true(from_cache(json));
	assert_int_equal(chmod(cache, 0777), 0);
	assert_false(from_cache(json));
	assert_int_equal(chmod(cache, 0700), 0);
	assert_true(from_cache(json));
	free(path);
}

/* Every property that the program depends on makes a different key. */
static void test_keys(void **state)
{
	static const char *const profiles[] = {
		ONE("SCMP_ACT_ERRNO", ""),
		ONE("SCMP_ACT_ERRNO", ",\"errnoRet\":1"),
		ONE("SCMP_ACT_KILL", ""),
		ONE("SCMP_ACT_KILL",
		    ",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]"),
		ONE("SCMP_ACT_KILL",
		    ",\"args\":[{\"index\":1,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]"),
		ONE("SCMP_ACT_KILL",
		    ",\"args\":[{\"index\":0,\"value\":2,\"op\":\"SCMP_CMP_EQ\"}]"),
		ONE("SCMP_ACT_KILL",
		    ",\"args\":[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_NE\"}]"),
		ONE("SCMP_ACT_KILL", ",\"args\":[{\"index\":0,\"value\":1,\"valueTwo\":1,"
				     "\"op\":\"SCMP_CMP_EQ\"}]"),
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\"}",
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"SCMP_ARCH_X86\"]}",
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\"}",
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1}",
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":2}",
	};
	struct seccomp_key keys[ARRAY_LEN(profiles)];

	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		seccomp_key_make(parse(profiles[i]), &keys[i]);
		for (size_t j = 0; j < i; j++)
			assert_false(keys[i].size == keys[j].size &&
				     memcmp(keys[i].bytes, keys[j].bytes, keys[i].size) == 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++)
		seccomp_key_free(&keys[i]);
}

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* A profile like those of container engines: what it costs, with and without the cache. */
static void test_large_profile(void **state)
{
	struct err err = { 0 };
	char *json = file_read(AT_FDCWD, SECCOMP_PROFILE, 1 << 20, NULL, &err);
	struct seccomp_filter cold, warm;
	double start, middle;

	if (!json)
		fail_msg("%s", err.text);
	start = milliseconds();
	cold = compile(json, cache);
	middle = milliseconds();
	warm = compile(json, cache);
	print_message("%d instructions: %.2f ms compiled, %.2f ms from the cache\n", cold.count,
		      middle - start, milliseconds() - middle);
	assert_int_equal(cold.count, warm.count);
	assert_memory_equal(cold.insns, warm.insns, cold.count * sizeof(*cold.insns));
	assert_int_equal(answer(&warm, NATIVE, SYS_read, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&warm, NATIVE, SYS_mount, 0), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&warm, NATIVE, SYS_clone3, 0), SECCOMP_RET_ERRNO | ENOSYS);
	assert_int_equal(answer(&warm, NATIVE, SYS_personality, 8), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&warm, NATIVE, SYS_personality, 9), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&warm, NATIVE, SYS_socket, 40), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&warm, NATIVE, SYS_socket, 2), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&warm, NATIVE, SYS_clone, 0x10000000), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&warm, NATIVE, SYS_clone, 17), SECCOMP_RET_ALLOW);
	seccomp_filter_free(&cold);
	seccomp_filter_free(&warm);
	free(json);
}

static int count_entries(void)
{
	DIR *dir = opendir(cache);
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void test_cache_is_bounded(void **state)
{
	for (int i = 0; i < 200; i++) {
		char *json = xasprintf("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{"
				       "\"names\":[\"getppid\"],"
				       "\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":%d}]}",
				       i + 100);
		struct seccomp_filter filter = compile(json, cache);

		assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 0),
				 SECCOMP_RET_ERRNO | (i + 100));
		seccomp_filter_free(&filter);
		free(json);
	}
	assert_in_range(count_entries(), 1, 70);
}

/* Numbers of system calls whose rules are drawn at random; some have 32-bit forms only, or none. */
static const char *const drawn[] = { "read",	   "write",   "openat", "getppid", "personality",
				     "mmap2",	   "fcntl64", "clone",	"openat2", "futex",
				     "arch_prctl", "_llseek", "setuid", "prctl" };
static const char *const drawn_actions[] = { "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_TRAP",
					     "SCMP_ACT_LOG", "SCMP_ACT_KILL_PROCESS" };
static const char *const drawn_operators[] = { "SCMP_CMP_NE",	    "SCMP_CMP_LT", "SCMP_CMP_LE",
					       "SCMP_CMP_EQ",	    "SCMP_CMP_GE", "SCMP_CMP_GT",
					       "SCMP_CMP_MASKED_EQ" };
static const uint64_t drawn_values[] = { 0, 1, 5, 0x7fffffff, 0xffffffff, 0x100000005, UINT64_MAX };

/* The same profile for the library alone, as the judge. */
struct judge {
	scmp_filter_ctx ctx;
	char *json;
};

static void draw_rule(struct judge *judge, const char *name, const char *action, uint32_t number,
		      unsigned int *seed)
{
	size_t n = (size_t)rand_r(seed) % 2; /* the library gets some pairs of conditions wrong */
	struct scmp_arg_cmp args[2];
	char *conditions = xstrdup(""), *longer;

	for (size_t i = 0; i < n; i++) {
		size_t op = (size_t)rand_r(seed) % ARRAY_LEN(drawn_operators);
		uint64_t a = drawn_values[(size_t)rand_r(seed) % ARRAY_LEN(drawn_values)];
		uint64_t b = drawn_values[(size_t)rand_r(seed) % ARRAY_LEN(drawn_values)] & a;

		args[i] =
			(struct scmp_arg_cmp){ (unsigned int)i, (enum scmp_compare)(op + 1), a, b };
		longer = xasprintf("%s%s{\"index\":%zu,\"op\":\"%s\",\"value\":%llu,"
				   "\"valueTwo\":%llu}",
				   conditions, i ? "," : "", i, drawn_operators[op],
				   (unsigned long long)a, (unsigned long long)b);
		free(conditions);
		conditions = longer;
	}
	assert_int_equal(seccomp_rule_add_array(judge->ctx, number,
						seccomp_syscall_resolve_name(name), (unsigned int)n,
						args),
			 0);
	longer = xasprintf("%s%s{\"names\":[\"%s\"],\"action\":\"%s\",\"args\":[%s]}", judge->json,
			   strchr(judge->json, '}') ? "," : "", name, action, conditions);
	free(judge->json);
	free(conditions);
	judge->json = longer;
}

/* A random profile: at most one rule a call, as two can be read in more than one way. */
static struct judge draw(unsigned int *seed)
{
	static const uint32_t numbers[] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(1), SCMP_ACT_TRAP,
					    SCMP_ACT_LOG, SCMP_ACT_KILL_PROCESS };
	size_t usual = (size_t)rand_r(seed) % ARRAY_LEN(numbers);
	struct judge judge = { .ctx = seccomp_init(numbers[usual]) };

	seccomp_arch_add(judge.ctx, SCMP_ARCH_X86);
	if (rand_r(seed) & 1)
		seccomp_arch_add(judge.ctx, SCMP_ARCH_X32);
	judge.json = xasprintf(
		"{\"defaultAction\":\"%s\",\"architectures\":[\"SCMP_ARCH_X86\"%s],"
		"\"syscalls\":[",
		drawn_actions[usual],
		seccomp_arch_exist(judge.ctx, SCMP_ARCH_X32) == 0 ? ",\"SCMP_ARCH_X32\"" : "");
	for (size_t i = 0; i < ARRAY_LEN(drawn); i++) {
		size_t action = (size_t)rand_r(seed) % ARRAY_LEN(numbers);

		if (action != usual)
			draw_rule(&judge, drawn[i], drawn_actions[action], numbers[action], seed);
	}
	return judge;
}

static struct seccomp_filter export(const struct judge *judge)
{
	_cleanup_fd_ int fd = memfd_create("judge", MFD_CLOEXEC);
	struct seccomp_filter filter = { 0 };
	struct stat st;

	assert_int_equal(seccomp_export_bpf(judge->ctx, fd), 0);
	assert_int_equal(fstat(fd, &st), 0);
	filter.count = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter));
	filter.insns = xcalloc(filter.count, sizeof(struct sock_filter));
	assert_int_equal(pread(fd, filter.insns, (size_t)st.st_size, 0), st.st_size);
	return filter;
}

static void compare(const struct seccomp_filter *ours, const struct seccomp_filter *judge,
		    uint32_t arch, uint32_t nr, const char *json)
{
	for (size_t i = 0; i < ARRAY_LEN(drawn_values) * ARRAY_LEN(drawn_values); i++) {
		const struct seccomp_data data = {
			.nr = (int)nr,
			.arch = arch,
			.args = { drawn_values[i % ARRAY_LEN(drawn_values)] &
					  (arch == NATIVE ? UINT64_MAX : UINT32_MAX),
				  drawn_values[i / ARRAY_LEN(drawn_values)] &
					  (arch == NATIVE ? UINT64_MAX : UINT32_MAX) },
		};
		uint32_t a = run(ours, &data), b = run(judge, &data);

		if (a == (SECCOMP_RET_ERRNO | ENOSYS)) /* newer: the library has no such answer */
			continue;
		if (a != b)
			fail_msg("arch %#x nr %u args %#llx %#llx: %#x, not %#x: %s", arch, nr,
				 (unsigned long long)data.args[0], (unsigned long long)data.args[1],
				 a, b, json);
	}
}

static void test_against_library(void **state)
{
	unsigned int seed = 7;

	for (int i = 0; i < 60; i++) {
		struct judge judge = draw(&seed);
		struct seccomp_filter theirs = export(&judge), ours;
		char *json = xasprintf("%s]}", judge.json);

		ours = compile(json, NULL);
		for (uint32_t nr = 0; nr < 460; nr++) {
			compare(&ours, &theirs, NATIVE, nr, json);
			compare(&ours, &theirs, NATIVE, nr | 0x40000000, json);
			compare(&ours, &theirs, AUDIT_ARCH_I386, nr, json);
		}
		compare(&ours, &theirs, NATIVE, UINT32_MAX, json);
		compare(&ours, &theirs, AUDIT_ARCH_I386, UINT32_MAX, json);
		compare(&ours, &theirs, AUDIT_ARCH_ARM, 1, json);
		seccomp_filter_free(&ours);
		seccomp_filter_free(&theirs);
		seccomp_release(judge.ctx);
		free(judge.json);
		free(json);
	}
}

static bool holds(size_t op, uint64_t argument, uint64_t value, uint64_t two)
{
	const bool answers[] = {
		argument != value,
		argument<value, argument <= value, argument == value, argument >= value, argument>
			value,
		(argument & value) == two
	};

	return answers[op];
}

/* Up to six conditions that are all needed, judged by what they say. */
static void test_several_conditions(void **state)
{
	unsigned int seed = 11;

	for (int i = 0; i < 300; i++) {
		size_t n = 2 + (size_t)rand_r(&seed) % 5, ops[6];
		uint64_t values[6], twos[6];
		char *json =
			xstrdup("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":["
				"\"getppid\"],\"action\":\"SCMP_ACT_TRAP\",\"args\":[");
		struct seccomp_filter filter;
		char *whole;

		for (size_t j = 0; j < n; j++) {
			char *longer;

			ops[j] = (size_t)rand_r(&seed) % ARRAY_LEN(drawn_operators);
			values[j] = drawn_values[(size_t)rand_r(&seed) % ARRAY_LEN(drawn_values)];
			twos[j] = drawn_values[(size_t)rand_r(&seed) % ARRAY_LEN(drawn_values)];
			longer = xasprintf("%s%s{\"index\":%zu,\"op\":\"%s\",\"value\":%llu,"
					   "\"valueTwo\":%llu}",
					   json, j ? "," : "", j, drawn_operators[ops[j]],
					   (unsigned long long)values[j],
					   (unsigned long long)twos[j]);
			free(json);
			json = longer;
		}
		whole = xasprintf("%s]}]}", json);
		filter = compile(whole, NULL);
		for (int k = 0; k < 200; k++) {
			struct seccomp_data data = { .nr = SYS_getppid, .arch = NATIVE };
			bool all = true;

			for (size_t j = 0; j < n; j++) {
				uint64_t near = drawn_values[(size_t)rand_r(&seed) %
							     ARRAY_LEN(drawn_values)];

				data.args[j] = rand_r(&seed) & 1 ? values[j] : near;
				all = all && holds(ops[j], data.args[j], values[j], twos[j]);
			}
			assert_int_equal(run(&filter, &data),
					 all ? SECCOMP_RET_TRAP : SECCOMP_RET_ALLOW);
		}
		seccomp_filter_free(&filter);
		free(whole);
		free(json);
	}
}

static void test_multiplexed(void **state)
{
	/* allowed with a condition: not through socketcall, where it cannot be checked */
	struct seccomp_filter filter = compile(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"architectures\":[\"SCMP_ARCH_X86\"],"
		"\"syscalls\":[{\"names\":[\"socket\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
		"{\"index\":0,\"value\":40,\"op\":\"SCMP_CMP_NE\"}]},{\"names\":[\"bind\"],"
		"\"action\":\"SCMP_ACT_ALLOW\"}]}",
		NULL);

	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 359, 2), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 102, 1), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 102, 2), SECCOMP_RET_ALLOW);
	seccomp_filter_free(&filter);
	/* forbidden with a condition: through socketcall always */
	filter = compile(
		"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":["
		"\"SCMP_ARCH_X86\"],\"syscalls\":[{\"names\":[\"socket\"],\"action\":"
		"\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":0,\"value\":40,\"op\":"
		"\"SCMP_CMP_EQ\"}]},{\"names\":[\"shmget\"],\"action\":\"SCMP_ACT_KILL\"}]}",
		NULL);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 359, 2), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 102, 1), SECCOMP_RET_ERRNO | EPERM);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 102, 2), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, AUDIT_ARCH_I386, 117, 23), SECCOMP_RET_KILL_THREAD);
	seccomp_filter_free(&filter);
}

static void test_precedence(void **state)
{
	static const char two[] =
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
		"{\"names\":[\"getppid\"],\"action\":\"SCMP_ACT_LOG\"},"
		"{\"names\":[\"getppid\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
		"{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}";
	static const char order[] =
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
		"{\"names\":[\"getppid\"],\"action\":\"SCMP_ACT_LOG\",\"args\":["
		"{\"index\":0,\"value\":5,\"op\":\"SCMP_CMP_GT\"}]},"
		"{\"names\":[\"getppid\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
		"{\"index\":0,\"value\":3,\"op\":\"SCMP_CMP_GT\"}]}]}";
	struct seccomp_filter filter = compile(two, NULL);

	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 1), SECCOMP_RET_LOG);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 2), SECCOMP_RET_LOG);
	seccomp_filter_free(&filter);
	filter = compile(order, NULL);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 6), SECCOMP_RET_LOG);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 4), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(&filter, NATIVE, SYS_getppid, 3), SECCOMP_RET_ERRNO | EPERM);
	seccomp_filter_free(&filter);
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
		cmocka_unit_test(test_against_library),
		cmocka_unit_test(test_several_conditions),
		cmocka_unit_test(test_multiplexed),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_large_profile),
		cmocka_unit_test(test_cache_is_bounded),
	};

	return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
