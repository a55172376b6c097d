/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The cache of compiled filters, which must never hand out one that was not asked for. */
#include "seccomp_filters.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

static char cache[] = "/tmp/moat-test-seccomp-XXXXXX";

static int make_cache(void **state)
{
	return mkdtemp(cache) ? 0 : -1;
}

static int remove_cache(void **state)
{
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
	seccomp_key_make(parsed(), &key);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_large_profile),
		cmocka_unit_test(test_cache_is_bounded),
	};

	return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
