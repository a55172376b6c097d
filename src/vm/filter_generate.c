/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Run by the build: prints the seccomp program of each role as C, compiled by libseccomp from the
 * tables of filter_rules.c. A machine that starts has nothing to compile, and what is let through
 * can be read in the build's directory.
 */
#include "vm/filter_rules.h"

#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Compare by halves of a binary tree instead of one call after the other. */
#define OPTIMIZE_TREE 2

static const char *const names[ROLES] = {
	[ROLE_MONITOR] = "monitor", [ROLE_VMM] = "vmm",		[ROLE_FSD] = "fsd",
	[ROLE_DISKD] = "diskd",	    [ROLE_STANDIN] = "standin", [ROLE_VICTIM] = "victim",
};

static struct scmp_arg_cmp compare(const struct filter_argument *argument)
{
	if (argument->mask == UINT64_MAX)
		return SCMP_CMP(argument->index, SCMP_CMP_EQ, argument->value);
	return SCMP_CMP(argument->index, SCMP_CMP_MASKED_EQ, argument->mask, argument->value);
}

static bool has_rule(enum role role, int call)
{
	for (const struct filter_rule *rule = filter_rules(role); rule->line.why; rule++)
		if (rule->line.call == call)
			return true;
	return false;
}

static int fill(scmp_filter_ctx filter, enum role role)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, OPTIMIZE_TREE);

	for (const struct filter_rule *rule = filter_rules(role); rule->line.why && r == 0;
	     rule++) {
		struct scmp_arg_cmp arguments[FILTER_RULE_ARGUMENTS];

		for (unsigned int i = 0; i < rule->line.arguments; i++)
			arguments[i] = compare(&rule->arguments[i]);
		r = seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, rule->line.call,
						 rule->line.arguments, arguments);
	}
	for (size_t i = 0; i < FILTER_ABSENT && r == 0; i++)
		if (!has_rule(role, filter_absent[i]))
			r = seccomp_rule_add_exact(filter, SCMP_ACT_ERRNO(ENOSYS), filter_absent[i],
						   0);
	return r;
}

static int print(FILE *program, const char *name)
{
	struct sock_filter insn;

	printf("static const struct sock_filter %s_program[] = {\n", name);
	while (fread(&insn, sizeof(insn), 1, program) == 1)
		printf("\t{ %#x, %u, %u, %#x },\n", insn.code, insn.jt, insn.jf, insn.k);
	printf("};\n\n");
	return ferror(program) ? -EIO : 0;
}

static int generate(enum role role)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	FILE *program = tmpfile();
	int r = filter && program ? fill(filter, role) : -ENOMEM;

	if (r == 0)
		r = seccomp_export_bpf(filter, fileno(program));
	if (r == 0) {
		rewind(program);
		r = print(program, names[role]);
	}
	if (program)
		fclose(program);
	seccomp_release(filter);
	return r;
}

int main(void)
{
	for (int role = 0; role < ROLES; role++) {
		int r = generate((enum role)role);

		if (r < 0) {
			fprintf(stderr, "filter_generate: %s: %s\n", names[role], strerror(-r));
			return 1;
		}
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
