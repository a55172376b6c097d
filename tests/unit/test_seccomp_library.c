/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Our compiler of seccomp profiles against libseccomp's: the same answers to the same calls. */
#include "seccomp_filters.h"

#include "base/fd.h"
#include "base/str.h"

#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <cmocka.h>

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
		cmocka_unit_test(test_against_library),
		cmocka_unit_test(test_several_conditions),
		cmocka_unit_test(test_multiplexed),
		cmocka_unit_test(test_precedence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
