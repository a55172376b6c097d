/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From a profile to a BPF program, with libseccomp. What it cannot do is put in front of its
 * program: the answer ENOSYS to system calls that are newer than the profile.
 */
#include "base/fd.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp_private.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/mman.h>

#define ERRNO_LIMIT 4095 /* the kernel's MAX_ERRNO */
#define X32_BIT	    0x40000000u
#define STUB_MAX    24

static void release(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

static const struct {
	const char *name;
	uint32_t action;
	bool takes_errno;
} actions[] = {
	{ "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD, false },
	{ "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD, false },
	{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS, false },
	{ "SCMP_ACT_TRAP", SCMP_ACT_TRAP, false },
	{ "SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(0), true },
	{ "SCMP_ACT_TRACE", SCMP_ACT_TRACE(0), true },
	{ "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW, false },
	{ "SCMP_ACT_LOG", SCMP_ACT_LOG, false },
	{ "SCMP_ACT_NOTIFY", SCMP_ACT_NOTIFY, false },
};

/* The parser has seen to it that an errno is only given where the action takes one. */
static int read_action(const char *name, bool has_errno, uint32_t code, uint32_t *action,
		       struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (!str_eq(actions[i].name, name))
			continue;
		*action = actions[i].action;
		if (has_errno && code > ERRNO_LIMIT)
			return err_set(err, 0, "errno %u is above %d, the greatest", code,
				       ERRNO_LIMIT);
		if (actions[i].takes_errno)
			*action |= has_errno ? code : EPERM;
		return 0;
	}
	return err_set(err, 0, "unknown action '%.64s'", name);
}

static int read_operator(const char *name, enum scmp_compare *compare, struct err *err)
{
	static const struct {
		const char *name;
		enum scmp_compare compare;
	} operators[] = {
		{ "SCMP_CMP_NE", SCMP_CMP_NE },
		{ "SCMP_CMP_LT", SCMP_CMP_LT },
		{ "SCMP_CMP_LE", SCMP_CMP_LE },
		{ "SCMP_CMP_EQ", SCMP_CMP_EQ },
		{ "SCMP_CMP_GE", SCMP_CMP_GE },
		{ "SCMP_CMP_GT", SCMP_CMP_GT },
		{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
	};

	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		if (str_eq(operators[i].name, name)) {
			*compare = operators[i].compare;
			return 0;
		}
	}
	return err_set(err, 0, "unknown operator '%.64s'", name);
}

static int failed(int r, const char *name, struct err *err)
{
	if (r == -EEXIST)
		return err_set(err, 0, "the rule for %.64s contradicts an earlier one", name);
	return err_set(err, -r, "add a rule for %.64s", name);
}

/* Rules of which one or another is enough, where an argument has two conditions. */
static int add_alternatives(scmp_filter_ctx ctx, uint32_t action, int number, const char *name,
			    const struct scmp_arg_cmp *args, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = seccomp_rule_add_array(ctx, action, number, 1, &args[i]);

		if (r < 0)
			return failed(r, name, err);
	}
	return 0;
}

static int add_rule(scmp_filter_ctx ctx, uint32_t action, const char *name,
		    const struct scmp_arg_cmp *args, size_t n, struct err *err)
{
	int number = seccomp_syscall_resolve_name(name), r;
	unsigned int seen = 0;

	if (number == __NR_SCMP_ERROR)
		return 0; /* newer than the library, or of no architecture: it cannot match */
	for (size_t i = 0; i < n; i++) {
		if (seen & 1u << args[i].arg)
			return add_alternatives(ctx, action, number, name, args, n, err);
		seen |= 1u << args[i].arg;
	}
	r = seccomp_rule_add_array(ctx, action, number, (unsigned int)n, args);
	return r < 0 ? failed(r, name, err) : 0;
}

static int add_syscall(scmp_filter_ctx ctx, const struct oci_syscall *s, uint32_t default_action,
		       struct err *err)
{
	_cleanup_free_ struct scmp_arg_cmp *args = xcalloc(s->n_args, sizeof(*args));
	uint32_t action;

	if (read_action(s->action, s->has_errno_ret, s->errno_ret, &action, err) < 0)
		return -1;
	for (size_t i = 0; i < s->n_args; i++) {
		if (s->args[i].index > 5)
			return err_set(err, 0, "a system call has no argument %u",
				       s->args[i].index);
		args[i] = (struct scmp_arg_cmp){ .arg = s->args[i].index,
						 .datum_a = s->args[i].value,
						 .datum_b = s->args[i].value_two };
		if (read_operator(s->args[i].op, &args[i].op, err) < 0)
			return -1;
	}
	if (action == default_action)
		return 0; /* says what holds anyway, which the library refuses */
	for (size_t i = 0; i < s->n_names; i++)
		if (add_rule(ctx, action, s->names[i], args, s->n_args, err) < 0)
			return -1;
	return 0;
}

/* Those that can run on this machine: calls of any other never reach the filter. */
static int add_architectures(scmp_filter_ctx ctx, const struct oci_seccomp *seccomp,
			     struct err *err)
{
	static const struct {
		const char *name;
		uint32_t token;
	} native[] = {
		{ "SCMP_ARCH_X86", SCMP_ARCH_X86 },
		{ "SCMP_ARCH_X32", SCMP_ARCH_X32 },
	};

	for (size_t i = 0; i < seccomp->n_architectures; i++) {
		for (size_t j = 0; j < ARRAY_LEN(native); j++) {
			int r;

			if (!str_eq(native[j].name, seccomp->architectures[i]))
				continue;
			r = seccomp_arch_add(ctx, native[j].token);
			if (r < 0 && r != -EEXIST)
				return err_set(err, -r, "add %s", native[j].name);
		}
	}
	return 0;
}

/* The greatest number of a call that the profile names, or -1. */
static int newest_call(const struct oci_seccomp *seccomp, uint32_t arch)
{
	int newest = -1;

	for (size_t i = 0; i < seccomp->n_syscalls; i++) {
		for (size_t j = 0; j < seccomp->syscalls[i].n_names; j++) {
			int n = seccomp_syscall_resolve_name_arch(arch,
								  seccomp->syscalls[i].names[j]);

			newest = n > newest ? n : newest;
		}
	}
	return newest;
}

/* Whether the default action lets a call be made, or leaves that to somebody else. */
static bool default_refuses(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SCMP_ACT_ALLOW:
	case SCMP_ACT_LOG:
	case SCMP_ACT_NOTIFY:
	case SCMP_ACT_TRACE(0):
		return false;
	default:
		return action != SCMP_ACT_ERRNO(ENOSYS);
	}
}

/* If the architecture (and x32 or not) is this one: ENOSYS above the newest call. */
static size_t stub_section(struct sock_filter *out, uint32_t arch, bool x32, int newest)
{
	const uint32_t nr = offsetof(struct seccomp_data, nr);
	const uint32_t where = offsetof(struct seccomp_data, arch);
	const uint32_t enosys = SECCOMP_RET_ERRNO | ENOSYS;
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, where),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, x32 ? 0 : 2, x32 ? 2 : 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)newest, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, enosys),
	};

	if (newest < 0)
		return 0;
	memcpy(out, code, sizeof(code));
	return ARRAY_LEN(code);
}

static size_t make_stub(scmp_filter_ctx ctx, const struct oci_seccomp *seccomp,
			struct sock_filter stub[STUB_MAX])
{
	size_t n = stub_section(stub, AUDIT_ARCH_X86_64, false,
				newest_call(seccomp, SCMP_ARCH_X86_64));

	if (seccomp_arch_exist(ctx, SCMP_ARCH_X32) == 0)
		n += stub_section(stub + n, AUDIT_ARCH_X86_64, true,
				  newest_call(seccomp, SCMP_ARCH_X32));
	if (seccomp_arch_exist(ctx, SCMP_ARCH_X86) == 0)
		n += stub_section(stub + n, AUDIT_ARCH_I386, false,
				  newest_call(seccomp, SCMP_ARCH_X86));
	return n;
}

static int export(scmp_filter_ctx ctx, const struct sock_filter *stub, size_t n_stub,
		  struct seccomp_filter *filter, struct err *err)
{
	_cleanup_fd_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
	size_t count;
	off_t size;
	int r;

	if (fd < 0)
		return err_set(err, errno, "make a file in memory");
	r = seccomp_export_bpf(ctx, fd);
	size = lseek(fd, 0, SEEK_END);
	if (r < 0 || size <= 0 || (size_t)size % sizeof(struct sock_filter))
		return err_set(err, r < 0 ? -r : EPROTO, "take over the program");
	count = n_stub + (size_t)size / sizeof(struct sock_filter);
	if (count > BPF_MAXINSNS)
		return err_set(err, E2BIG, "%zu instructions, of %d that the kernel takes", count,
			       BPF_MAXINSNS);
	filter->insns = xcalloc(count, sizeof(*filter->insns));
	filter->count = (unsigned short)count;
	memcpy(filter->insns, stub, n_stub * sizeof(*stub));
	if (lseek(fd, 0, SEEK_SET) < 0 ||
	    fd_read_full(fd, filter->insns + n_stub, (size_t)size) != size) {
		seccomp_filter_free(filter);
		return err_set(err, EIO, "take over the program");
	}
	return 0;
}

int seccomp_program(const struct oci_seccomp *seccomp, struct seccomp_filter *filter,
		    struct err *err)
{
	_cleanup_(release) scmp_filter_ctx ctx = NULL;
	struct sock_filter stub[STUB_MAX];
	uint32_t action;
	size_t n_stub = 0;

	if (read_action(seccomp->default_action, seccomp->has_default_errno_ret,
			seccomp->default_errno_ret, &action, err) < 0)
		return err_wrap(err, "default action");
	ctx = seccomp_init(action);
	if (!ctx)
		return err_set(err, 0, "the kernel does not know the action %s",
			       seccomp->default_action);
	/* A tree by number: some ten comparisons a system call instead of hundreds. */
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (add_architectures(ctx, seccomp, err) < 0)
		return -1;
	for (size_t i = 0; i < seccomp->n_syscalls; i++)
		if (add_syscall(ctx, &seccomp->syscalls[i], action, err) < 0)
			return err_wrap(err, "syscalls[%zu]", i);
	if (default_refuses(action))
		n_stub = make_stub(ctx, seccomp, stub);
	return export(ctx, stub, n_stub, filter, err);
}
