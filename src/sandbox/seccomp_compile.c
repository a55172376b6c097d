/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From a profile to a BPF program: a part for each architecture whose programs can run here, found
 * by what the kernel says of the caller. A caller of any other is killed.
 */
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp_private.h"
#include "sandbox/seccomp_rules.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#define X32_BIT 0x40000000u

static const struct architecture x86_64 = { "SCMP_ARCH_X86_64", AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64,
					    0, false };
static const struct architecture x32 = { "SCMP_ARCH_X32", AUDIT_ARCH_X86_64, SCMP_ARCH_X32, X32_BIT,
					 true };
static const struct architecture x86 = { "SCMP_ARCH_X86", AUDIT_ARCH_I386, SCMP_ARCH_X86, 0, true };

static void code_free(struct code *code)
{
	free(code->insns);
}

static bool asked(const struct oci_seccomp *seccomp, const struct architecture *architecture)
{
	for (size_t i = 0; i < seccomp->n_architectures; i++)
		if (str_eq(seccomp->architectures[i], architecture->name))
			return true;
	return false;
}

/* default_action: set to what the profile says of calls that it does not name; may be NULL. */
static int add_part(const struct oci_seccomp *seccomp, const struct architecture *architecture,
		    struct code *code, uint32_t *default_action, struct err *err)
{
	struct rules rules;

	if (rules_make(seccomp, architecture, &rules, err) < 0)
		return -1;
	code_rules(code, &rules);
	if (default_action)
		*default_action = rules.default_action;
	free(rules.items);
	return 0;
}

static void load(struct code *code, size_t offset)
{
	code_add(code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void add_all(struct code *code, const struct code *part)
{
	for (size_t i = 0; i < part->count; i++)
		code_add(code, part->insns[i]);
}

/* If the test on A fails, skip the part. */
static void add_tested(struct code *code, uint16_t test, uint32_t k, const struct code *part)
{
	code_add(code, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | test, k, 1, 0));
	code_add(code, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)part->count));
	add_all(code, part);
}

static void add_return(struct code *code, uint32_t action)
{
	code_add(code, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/*
 * Numbers of x32 where x32 is not asked for. -1 is none of them: with it a tracer says that no
 * call is to be made.
 */
static void add_no_x32(struct code *code, uint32_t default_action)
{
	code_add(code, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, UINT32_MAX, 0, 1));
	add_return(code, default_action);
	add_return(code, SECCOMP_RET_KILL_THREAD);
}

/* x32 calls are x86-64 ones with a high number. */
static int add_64(const struct oci_seccomp *seccomp, struct code *code, struct err *err)
{
	_cleanup_(code_free) struct code usual = { 0 }, high = { 0 }, both = { 0 };
	uint32_t default_action;

	if (add_part(seccomp, &x86_64, &usual, &default_action, err) < 0)
		return -1;
	if (!asked(seccomp, &x32))
		add_no_x32(&high, default_action);
	else if (add_part(seccomp, &x32, &high, NULL, err) < 0)
		return -1;
	load(&both, offsetof(struct seccomp_data, nr));
	add_tested(&both, BPF_JGE, X32_BIT, &high);
	add_all(&both, &usual);
	add_tested(code, BPF_JEQ, AUDIT_ARCH_X86_64, &both);
	return 0;
}

static int add_32(const struct oci_seccomp *seccomp, struct code *code, struct err *err)
{
	_cleanup_(code_free) struct code part = { 0 };

	load(&part, offsetof(struct seccomp_data, nr));
	if (add_part(seccomp, &x86, &part, NULL, err) < 0)
		return -1;
	add_tested(code, BPF_JEQ, AUDIT_ARCH_I386, &part);
	return 0;
}

int seccomp_program(const struct oci_seccomp *seccomp, struct seccomp_filter *filter,
		    struct err *err)
{
	_cleanup_(code_free) struct code code = { 0 };

	load(&code, offsetof(struct seccomp_data, arch));
	if (add_64(seccomp, &code, err) < 0 ||
	    (asked(seccomp, &x86) && add_32(seccomp, &code, err) < 0))
		return -1;
	add_return(&code, SECCOMP_RET_KILL_THREAD);
	if (code.count > BPF_MAXINSNS)
		return err_set(err, E2BIG, "%zu instructions, of %d that the kernel takes",
			       code.count, BPF_MAXINSNS);
	filter->count = (unsigned short)code.count;
	filter->insns = steal(code.insns);
	return 0;
}
