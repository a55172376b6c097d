/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device rules as a BPF program of type CGROUP_DEVICE, which is what v2 has in place of v1's
 * devices controller. The kernel calls it with the accesses asked for (a set of bits) and the
 * device. From the last rule to the first, each rule that names the device settles the bits that
 * no later rule has settled: a forbidding one ends in a refusal, an allowing one takes them out of
 * the set, and with the set empty the answer is yes.
 */
#include "cgroup/devices.h"

#include "base/fd.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define ACCESS_ALL (BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE)
/* The longest rule: three tests of the device, four or five instructions for the bits. */
#define RULE_MAX 10
#define HEAD_MAX 12

enum { R_RESULT = BPF_REG_0, R_CONTEXT, R_TYPE, R_ACCESS, R_MAJOR, R_MINOR };

struct program {
	struct bpf_insn *insns;
	size_t count;
};

static struct bpf_insn *emit(struct program *p, unsigned int code, unsigned int dst,
			     unsigned int src, int off, uint32_t imm)
{
	struct bpf_insn *insn = &p->insns[p->count++];

	*insn = (struct bpf_insn){ .code = (uint8_t)code,
				   .dst_reg = dst & 0xf,
				   .src_reg = src & 0xf,
				   .off = (int16_t)off,
				   .imm = (int32_t)imm };
	return insn;
}

static void emit_load(struct program *p, unsigned int dst, size_t offset)
{
	emit(p, BPF_LDX | BPF_W | BPF_MEM, dst, R_CONTEXT, (int)offset, 0);
}

static void emit_return(struct program *p, uint32_t result)
{
	emit(p, BPF_ALU | BPF_MOV | BPF_K, R_RESULT, 0, 0, result);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void emit_head(struct program *p)
{
	emit_load(p, R_TYPE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
	emit(p, BPF_ALU | BPF_MOV | BPF_X, R_ACCESS, R_TYPE, 0, 0);
	emit(p, BPF_ALU | BPF_RSH | BPF_K, R_ACCESS, 0, 0, 16);
	emit(p, BPF_ALU | BPF_AND | BPF_K, R_TYPE, 0, 0, 0xffff);
	emit_load(p, R_MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
	emit_load(p, R_MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
	/* An open that neither reads nor writes asks for nothing. */
	emit(p, BPF_JMP32 | BPF_JNE | BPF_K, R_ACCESS, 0, 2, 0);
	emit_return(p, 1);
}

/* Jumps whose target, the next rule, is not known yet are patched once it is. */
static void emit_rule(struct program *p, const struct device_rule *rule)
{
	struct bpf_insn *skips[4];
	size_t n = 0;

	if (rule->type)
		skips[n++] = emit(p, BPF_JMP32 | BPF_JNE | BPF_K, R_TYPE, 0, 0, rule->type);
	if (rule->major != DEVICE_ANY)
		skips[n++] =
			emit(p, BPF_JMP32 | BPF_JNE | BPF_K, R_MAJOR, 0, 0, (uint32_t)rule->major);
	if (rule->minor != DEVICE_ANY)
		skips[n++] =
			emit(p, BPF_JMP32 | BPF_JNE | BPF_K, R_MINOR, 0, 0, (uint32_t)rule->minor);
	if (rule->access != ACCESS_ALL && rule->allow) {
		emit(p, BPF_ALU | BPF_AND | BPF_K, R_ACCESS, 0, 0, ACCESS_ALL & ~rule->access);
		skips[n++] = emit(p, BPF_JMP32 | BPF_JNE | BPF_K, R_ACCESS, 0, 0, 0);
	} else if (rule->access != ACCESS_ALL) {
		emit(p, BPF_ALU | BPF_MOV | BPF_X, R_RESULT, R_ACCESS, 0, 0);
		emit(p, BPF_ALU | BPF_AND | BPF_K, R_RESULT, 0, 0, rule->access);
		skips[n++] = emit(p, BPF_JMP32 | BPF_JEQ | BPF_K, R_RESULT, 0, 0, 0);
	}
	emit_return(p, rule->allow);
	for (size_t i = 0; i < n; i++)
		skips[i]->off = (int16_t)(&p->insns[p->count] - skips[i] - 1);
}

/* Whether the rule decides everything, so that nothing behind it can be reached. */
static bool is_last(const struct device_rule *rule)
{
	return !rule->type && rule->major == DEVICE_ANY && rule->minor == DEVICE_ANY &&
	       rule->access == ACCESS_ALL;
}

struct bpf_insn *device_program(const struct device_rules *rules, size_t *count)
{
	struct program p = { xcalloc(HEAD_MAX + rules->count * RULE_MAX, sizeof(*p.insns)), 0 };
	bool ended = false;

	emit_head(&p);
	for (size_t i = rules->count; i-- > 0 && !ended;) {
		emit_rule(&p, &rules->items[i]);
		ended = is_last(&rules->items[i]); /* the verifier refuses code never reached */
	}
	if (!ended)
		emit_return(&p, 0);
	*count = p.count;
	return p.insns;
}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* The program of this type that the cgroup has, or -1. More than one are not ours to replace. */
static int attached_program(int dirfd)
{
	uint32_t ids[2] = { 0 };
	union bpf_attr query, open;

	memset(&query, 0, sizeof(query));
	query.query.target_fd = (uint32_t)dirfd;
	query.query.attach_type = BPF_CGROUP_DEVICE;
	query.query.prog_ids = (uint64_t)(uintptr_t)ids;
	query.query.prog_cnt = ARRAY_LEN(ids);
	if (bpf(BPF_PROG_QUERY, &query) < 0 || query.query.prog_cnt != 1)
		return -1;
	memset(&open, 0, sizeof(open));
	open.prog_id = ids[0];
	return bpf(BPF_PROG_GET_FD_BY_ID, &open);
}

static int load(const struct device_rules *rules, struct err *err)
{
	size_t count;
	_cleanup_free_ struct bpf_insn *insns = device_program(rules, &count);
	union bpf_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)insns;
	attr.insn_cnt = (uint32_t)count;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	snprintf(attr.prog_name, sizeof(attr.prog_name), "moat_devices");
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	err_set(err, errno, "load the device rules (a BPF program of %zu instructions)", count);
	if (errno == EPERM)
		err_hint(err, "it takes CAP_BPF or CAP_SYS_ADMIN");
	else if (errno == ENOSYS || errno == EINVAL)
		err_hint(err, "it takes a kernel with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF");
	return -1;
}

int device_attach(const struct device_rules *rules, int dirfd, bool replace, struct err *err)
{
	_cleanup_fd_ int program = load(rules, err);
	_cleanup_fd_ int old = replace ? attached_program(dirfd) : -1;
	union bpf_attr attr;

	if (program < 0)
		return -1;
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)dirfd;
	attr.attach_bpf_fd = (uint32_t)program;
	attr.attach_type = BPF_CGROUP_DEVICE;
	attr.attach_flags = BPF_F_ALLOW_MULTI; /* the rules of the cgroups above stay in force */
	if (old >= 0) {
		attr.attach_flags |= BPF_F_REPLACE;
		attr.replace_bpf_fd = (uint32_t)old;
	}
	if (bpf(BPF_PROG_ATTACH, &attr) < 0)
		return err_set(err, errno, "attach the device rules to the cgroup");
	return 0;
}
