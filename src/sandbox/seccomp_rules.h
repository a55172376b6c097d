/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile for one architecture: for each system call what to answer, maybe by its arguments.
 * What a profile says twice is settled so: a rule without conditions takes the place of those with
 * conditions; of two such rules the first holds; of those with conditions the first that matches.
 */
#pragma once

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oci_seccomp;

enum comparison { CMP_NE, CMP_LT, CMP_LE, CMP_EQ, CMP_GE, CMP_GT, CMP_MASKED_EQ };

struct condition {
	unsigned int arg;
	enum comparison comparison;
	uint64_t value; /* CMP_MASKED_EQ: the mask */
	uint64_t value_two;
};

#define CONDITIONS_MAX 6

struct rule {
	const char *name; /* the profile's */
	uint32_t nr, action;
	size_t order; /* place in the profile */
	size_t n_conditions;
	struct condition conditions[CONDITIONS_MAX];
};

/* An instruction set as the kernel tells it to filters, and as the library names its calls. */
struct architecture {
	const char *name; /* in config.json */
	uint32_t audit;	  /* AUDIT_ARCH_* */
	uint32_t library; /* SCMP_ARCH_* */
	uint32_t first;	  /* its numbers start here: x32 shares the kernel's token with x86-64 */
	bool narrow;	  /* only the lower halves of arguments count */
};

struct rules {
	const struct architecture *architecture;
	struct rule *items; /* by number, then by order */
	size_t count;
	uint32_t default_action;
	uint32_t newest;   /* the greatest number that the profile names; 0: none */
	bool answer_newer; /* with ENOSYS, to those above */
};

/*
 * rules_make() - the rules of a profile for one architecture.
 * Returns 0 (free items), or -1 with err set.
 */
int rules_make(const struct oci_seccomp *seccomp, const struct architecture *architecture,
	       struct rules *rules, struct err *err);

/*
 * x86_multiplexed() - what libseccomp's number for a call that 32-bit x86 multiplexes stands for.
 * @through: the call that it is made through. @number: that one's first argument.
 * @direct: its own number, -1 where it has none.
 *
 * Returns false for a number that is none of these.
 */
bool x86_multiplexed(int library_number, uint32_t *through, uint32_t *number, int *direct);

/* What rules are made into. */
struct code {
	struct sock_filter *insns;
	size_t count, room;
};

/* code_rules() - append a program that answers for one architecture; A holds the number. */
void code_rules(struct code *code, const struct rules *rules);

/* code_add() - append an instruction. */
void code_add(struct code *code, struct sock_filter insn);
