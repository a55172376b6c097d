/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rules as a BPF program: the numbers of system calls are cut into ranges that have one answer,
 * and a tree of comparisons finds the range. Profiles name most calls, so the ranges are few and
 * the program is short: what the kernel has to check, translate and precompute when it is loaded.
 */
#include "sandbox/seccomp_rules.h"

#include "base/mem.h"

#include <linux/seccomp.h>
#include <string.h>

/* From `first` up to the next range: an action, or rules with conditions. */
struct range {
	uint32_t first, action;
	const struct rule *rules;
	size_t n_rules; /* 0: the action */
};

void code_add(struct code *code, struct sock_filter insn)
{
	if (code->count == code->room) {
		code->room = code->room ? 2 * code->room : 64;
		code->insns = xrealloc(code->insns, code->room, sizeof(*code->insns));
	}
	code->insns[code->count++] = insn;
}

static void statement(struct code *code, unsigned int operation, uint32_t k)
{
	code_add(code, (struct sock_filter)BPF_STMT((uint16_t)operation, k));
}

static void answer(struct code *code, uint32_t action)
{
	statement(code, BPF_RET | BPF_K, action);
}

/*
 * The jumps of one rule. Where they lead is known at its end: on to what the rule answers
 * (CONDITION_HOLDS), or to behind it (RULE_FAILS). Until then these stand in their places.
 */
#define NEXT_CONDITION 254
#define RULE_FAILS     255

static void jump(struct code *code, unsigned int test, uint32_t k, uint8_t yes, uint8_t no)
{
	code_add(code,
		 (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | test), k, yes, no));
}

static void load(struct code *code, unsigned int arg, bool upper)
{
	size_t offset = offsetof(struct seccomp_data, args) + 8 * arg + (upper ? 4 : 0);

	statement(code, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static void masked_half(struct code *code, const struct condition *c, bool upper)
{
	uint32_t mask = (uint32_t)(c->value >> (upper ? 32 : 0));
	uint32_t value = (uint32_t)(c->value_two >> (upper ? 32 : 0));

	load(code, c->arg, upper);
	statement(code, BPF_ALU | BPF_AND | BPF_K, mask);
	jump(code, BPF_JEQ, value, 0, RULE_FAILS);
}

/* The upper halves decide, unless they are equal; then the lower ones do. */
static void upper_half(struct code *code, const struct condition *c)
{
	uint32_t value = (uint32_t)(c->value >> 32);

	load(code, c->arg, true);
	switch (c->comparison) {
	case CMP_NE:
		jump(code, BPF_JEQ, value, 0, NEXT_CONDITION);
		break;
	case CMP_GT:
	case CMP_GE:
		jump(code, BPF_JGT, value, NEXT_CONDITION, 0);
		jump(code, BPF_JEQ, value, 0, RULE_FAILS);
		break;
	case CMP_LT:
	case CMP_LE:
		jump(code, BPF_JGT, value, RULE_FAILS, 0);
		jump(code, BPF_JEQ, value, 0, NEXT_CONDITION);
		break;
	default:
		jump(code, BPF_JEQ, value, 0, RULE_FAILS);
	}
}

static void lower_half(struct code *code, const struct condition *c)
{
	uint32_t value = (uint32_t)c->value;

	load(code, c->arg, false);
	switch (c->comparison) {
	case CMP_NE:
		jump(code, BPF_JEQ, value, RULE_FAILS, 0);
		break;
	case CMP_GT:
		jump(code, BPF_JGT, value, 0, RULE_FAILS);
		break;
	case CMP_GE:
		jump(code, BPF_JGE, value, 0, RULE_FAILS);
		break;
	case CMP_LT:
		jump(code, BPF_JGE, value, RULE_FAILS, 0);
		break;
	case CMP_LE:
		jump(code, BPF_JGT, value, RULE_FAILS, 0);
		break;
	default:
		jump(code, BPF_JEQ, value, 0, RULE_FAILS);
	}
}

/* Gives the jumps of instructions from..count to a place in the code their distance. */
static void land(struct code *code, size_t from, uint8_t to)
{
	for (size_t i = from; i < code->count; i++) {
		struct sock_filter *insn = &code->insns[i];
		uint8_t distance = (uint8_t)(code->count - i - 1);

		if (BPF_CLASS(insn->code) != BPF_JMP)
			continue;
		if (insn->jt == to)
			insn->jt = distance;
		if (insn->jf == to)
			insn->jf = distance;
	}
}

static void condition(struct code *code, const struct condition *c, bool narrow)
{
	size_t start = code->count;

	if (c->comparison == CMP_MASKED_EQ) {
		if (!narrow)
			masked_half(code, c, true);
		masked_half(code, c, false);
		return;
	}
	if (!narrow)
		upper_half(code, c);
	lower_half(code, c);
	land(code, start, NEXT_CONDITION);
}

static void one_rule(struct code *code, const struct rule *rule, bool narrow)
{
	size_t start = code->count;

	for (size_t i = 0; i < rule->n_conditions; i++)
		condition(code, &rule->conditions[i], narrow);
	answer(code, rule->action);
	land(code, start, RULE_FAILS); /* six conditions take 36 instructions at most */
}

static void tree(struct code *code, const struct range *ranges, size_t n, const struct rules *rules)
{
	struct code below = { 0 };
	size_t middle = n / 2;

	if (n == 1) {
		for (size_t i = 0; i < ranges->n_rules; i++)
			one_rule(code, &ranges->rules[i], rules->architecture->narrow);
		answer(code, ranges->n_rules ? rules->default_action : ranges->action);
		return;
	}
	tree(&below, ranges, middle, rules);
	if (below.count <= UINT8_MAX) {
		jump(code, BPF_JGE, ranges[middle].first, (uint8_t)below.count, 0);
	} else {
		jump(code, BPF_JGE, ranges[middle].first, 0, 1);
		statement(code, BPF_JMP | BPF_JA, (uint32_t)below.count);
	}
	for (size_t i = 0; i < below.count; i++)
		code_add(code, below.insns[i]);
	free(below.insns);
	tree(code, ranges + middle, n - middle, rules);
}

/* Appends a range, unless the one before it says the same. */
static void add_range(struct range *ranges, size_t *n, struct range range)
{
	if (*n && ranges[*n - 1].first == range.first)
		(*n)--; /* nothing came of that one */
	if (*n && !range.n_rules && !ranges[*n - 1].n_rules &&
	    ranges[*n - 1].action == range.action)
		return;
	ranges[(*n)++] = range;
}

void code_rules(struct code *code, const struct rules *rules)
{
	/* A range for each call and one behind it, the first, and the newer ones. */
	_cleanup_free_ struct range *ranges = xcalloc(2 * rules->count + 2, sizeof(*ranges));
	size_t n = 0, same;

	add_range(ranges, &n,
		  (struct range){ .first = rules->architecture->first,
				  .action = rules->default_action });
	for (size_t i = 0; i < rules->count; i += same) {
		const struct rule *rule = &rules->items[i];
		struct range range = { .first = rule->nr, .action = rule->action };

		for (same = 1; i + same < rules->count && rule[same].nr == rule->nr;)
			same++;
		if (rule->n_conditions) {
			range.rules = rule;
			range.n_rules = same;
		}
		add_range(ranges, &n, range);
		add_range(ranges, &n,
			  (struct range){ .first = rule->nr + 1, .action = rules->default_action });
	}
	if (rules->answer_newer)
		add_range(ranges, &n,
			  (struct range){ .first = rules->newest + 1,
					  .action = SECCOMP_RET_ERRNO | ENOSYS });
	tree(code, ranges, n, rules);
}
