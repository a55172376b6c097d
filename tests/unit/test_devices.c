/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device rules: what the BPF program answers, by running it in a small interpreter and comparing
 * with the rules read the slow way; what v1 is told; and that the kernel's verifier takes it.
 */
#include "cgroup_fixture.h"

#include "base/fd.h"
#include "base/str.h"
#include "cgroup/devices.h"
#include "cgroup/settings.h"
#include "oci/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <cmocka.h>

/* Runs a program of the few instructions that are generated. Fails on any other. */
static uint32_t run(const struct bpf_insn *insns, size_t count,
		    const struct bpf_cgroup_dev_ctx *context)
{
	uint32_t r[11] = { 0 };

	for (size_t pc = 0; pc < count; pc++) {
		const struct bpf_insn *i = &insns[pc];
		uint32_t imm = (uint32_t)i->imm;

		assert_in_range(i->off, 0, count);
		if (i->code == (BPF_LDX | BPF_W | BPF_MEM))
			memcpy(&r[i->dst_reg], (const char *)context + i->off, 4);
		else if (i->code == (BPF_ALU | BPF_MOV | BPF_X))
			r[i->dst_reg] = r[i->src_reg];
		else if (i->code == (BPF_ALU | BPF_MOV | BPF_K))
			r[i->dst_reg] = imm;
		else if (i->code == (BPF_ALU | BPF_RSH | BPF_K))
			r[i->dst_reg] >>= imm;
		else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
			r[i->dst_reg] &= imm;
		else if (i->code == (BPF_JMP32 | BPF_JNE | BPF_K))
			pc += r[i->dst_reg] != imm ? (size_t)i->off : 0;
		else if (i->code == (BPF_JMP32 | BPF_JEQ | BPF_K))
			pc += r[i->dst_reg] == imm ? (size_t)i->off : 0;
		else if (i->code == (BPF_JMP | BPF_EXIT))
			return r[0];
		else
			fail_msg("instruction %#x", i->code);
	}
	fail_msg("ran off the end");
	return 0;
}

/* What the rules say: each access asked for is settled by the last rule that names it. */
static bool allowed(const struct device_rules *rules, uint32_t type, uint32_t access,
		    uint32_t major, uint32_t minor)
{
	for (uint32_t bit = 1; bit <= 4; bit <<= 1) {
		bool yes = false;

		for (size_t i = 0; i < rules->count; i++) {
			const struct device_rule *r = &rules->items[i];

			if ((!r->type || r->type == type) && (r->access & bit) &&
			    (r->major == DEVICE_ANY || r->major == major) &&
			    (r->minor == DEVICE_ANY || r->minor == minor))
				yes = r->allow;
		}
		if ((access & bit) && !yes)
			return false;
	}
	return true;
}

static void compare_all(const struct device_rules *rules)
{
	size_t count;
	struct bpf_insn *insns = device_program(rules, &count);

	for (uint32_t n = 0; n < 2 * 8 * 4 * 4; n++) {
		uint32_t type = 1 + (n & 1), access = n >> 1 & 7, major = n >> 4 & 3,
			 minor = n >> 6 & 3;
		struct bpf_cgroup_dev_ctx context = { access << 16 | type, major, minor };

		assert_int_equal(run(insns, count, &context),
				 allowed(rules, type, access, major, minor));
	}
	free(insns);
}

/* -1: the kernel refused; -2: this process may not load programs. */
static int verify(const struct device_rules *rules)
{
	static char log[65536];
	union bpf_attr attr;
	size_t count;
	struct bpf_insn *insns = device_program(rules, &count);
	_cleanup_fd_ int fd = -1;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)insns;
	attr.insn_cnt = (uint32_t)count;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	attr.log_level = 1;
	attr.log_buf = (uint64_t)(uintptr_t)log;
	attr.log_size = sizeof(log);
	fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	free(insns);
	if (fd >= 0)
		return 0;
	if (errno == EPERM || errno == ENOSYS)
		return -2;
	print_error("%s\n", log);
	return -1;
}

static void random_rules(struct device_rules *rules, unsigned int *seed)
{
	rules->count = (size_t)rand_r(seed) % 12;
	for (size_t i = 0; i < rules->count; i++) {
		rules->items[i] = (struct device_rule){
			.allow = rand_r(seed) & 1,
			.type = (uint32_t)rand_r(seed) % 3,
			.access = 1 + (uint32_t)rand_r(seed) % 7,
			.major = rand_r(seed) % 5 - 1,
			.minor = rand_r(seed) % 5 - 1,
		};
	}
}

static void test_program(void **state)
{
	struct device_rule items[12];
	struct device_rules rules = { items, 0 };
	unsigned int seed = 1;

	for (int i = 0; i < 3000; i++) {
		random_rules(&rules, &seed);
		compare_all(&rules);
	}
}

static void test_verifier(void **state)
{
	struct device_rule items[12];
	struct device_rules rules = { items, 0 };
	unsigned int seed = 2;

	for (int i = 0; i < 200; i++) {
		int r;

		random_rules(&rules, &seed);
		r = verify(&rules);
		if (r == -2)
			skip();
		assert_int_equal(r, 0);
	}
}

static void test_read(void **state)
{
	struct oci_linux_resources *r = resources_parse(
		"{\"devices\":[{\"allow\":false,\"access\":\"rwm\"},{\"allow\":true,\"type\":\"b\","
		"\"major\":8,\"access\":\"r\"},{\"allow\":true,\"type\":\"c\",\"major\":-1,"
		"\"minor\":7}]}");
	struct device_rules rules;
	struct err err = { 0 };

	assert_int_equal(device_rules_read(r, &rules, &err), 0);
	assert_int_equal(rules.count, 13);
	assert_false(rules.items[0].allow);
	assert_int_equal(rules.items[0].type, 0);
	assert_int_equal(rules.items[0].access, 7);
	assert_int_equal(rules.items[1].type, BPF_DEVCG_DEV_BLOCK);
	assert_int_equal(rules.items[1].major, 8);
	assert_int_equal(rules.items[1].minor, DEVICE_ANY);
	assert_int_equal(rules.items[1].access, BPF_DEVCG_ACC_READ);
	assert_int_equal(rules.items[2].major, DEVICE_ANY);
	assert_int_equal(rules.items[2].access, 7);
	/* the default devices are there, a disk is read only, kmem is not */
	assert_true(allowed(&rules, BPF_DEVCG_DEV_CHAR, 7, 1, 3));
	assert_true(allowed(&rules, BPF_DEVCG_DEV_CHAR, 6, 136, 99));
	assert_true(allowed(&rules, BPF_DEVCG_DEV_BLOCK, 2, 8, 1));
	assert_false(allowed(&rules, BPF_DEVCG_DEV_BLOCK, 6, 8, 1));
	assert_false(allowed(&rules, BPF_DEVCG_DEV_CHAR, 2, 1, 2));
	assert_false(device_rules_open(&rules));
	assert_int_not_equal(verify(&rules), -1);
	device_rules_cleanup(&rules);
	oci_linux_resources_free(r);

	r = resources_parse("{\"devices\":[{\"allow\":true,\"access\":\"rwx\"}]}");
	assert_int_equal(device_rules_read(r, &rules, &err), -1);
	assert_non_null(strstr(err.text, "rwx"));
	oci_linux_resources_free(r);

	r = resources_parse("{\"devices\":[{\"allow\":true,\"access\":\"rwm\"}]}");
	assert_int_equal(device_rules_read(r, &rules, &err), 0);
	assert_true(device_rules_open(&rules));
	device_rules_cleanup(&rules);
	oci_linux_resources_free(r);

	assert_int_equal(device_rules_read(NULL, &rules, &err), 0);
	assert_int_equal(rules.count, 0);
}

static void expect_v1(const struct device_rule *items, size_t count, const char *expected)
{
	struct device_rules rules = { (struct device_rule *)items, count };
	struct settings settings = { 0 };
	struct err err = { 0 };
	char text[1024] = "";

	if (device_rules_v1(&rules, &settings, &err) < 0) {
		if (expected)
			fail_msg("%s", err.text);
		settings_free(&settings);
		return;
	}
	assert_non_null(expected);
	for (size_t i = 0; i < settings.count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s=%s;",
			 settings.items[i].file + strlen("devices."), settings.items[i].value);
	assert_string_equal(text, expected);
	settings_free(&settings);
}

static void test_v1(void **state)
{
	const struct device_rule all = { false, 0, 7, -1, -1 }, open = { true, 0, 7, -1, -1 };
	const struct device_rule null = { true, 2, 7, 1, 3 }, no_null = { false, 2, 4, 1, 3 };
	const struct device_rule one = { true, 2, 7, 1, -1 }, no_one = { false, 2, 7, 1, -1 };
	const struct device_rule nodes = { true, 0, 1, -1, -1 };

	expect_v1((struct device_rule[]){ all, null }, 2, "deny=a;allow=c 1:3 rwm;");
	expect_v1((struct device_rule[]){ null }, 1, "deny=a;allow=c 1:3 rwm;");
	expect_v1((struct device_rule[]){ null, no_null }, 2, "deny=a;allow=c 1:3 rm;");
	expect_v1((struct device_rule[]){ null, no_one }, 2, "deny=a;");
	expect_v1((struct device_rule[]){ one, no_null }, 2, NULL);
	expect_v1((struct device_rule[]){ open, no_one }, 2, "allow=a;deny=c 1:* rwm;");
	expect_v1((struct device_rule[]){ open, no_one, null }, 3, NULL);
	expect_v1((struct device_rule[]){ null, open, all, one }, 4, "deny=a;allow=c 1:* rwm;");
	expect_v1((struct device_rule[]){ nodes }, 1, "deny=a;allow=b *:* m;allow=c *:* m;");
	expect_v1(NULL, 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_verifier),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_v1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
