/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A profile's rules for one architecture. libseccomp knows the numbers of system calls. */
#include "sandbox/seccomp_rules.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp.h"

#include <linux/seccomp.h>
#include <seccomp.h>

#define ERRNO_LIMIT 4095 /* the kernel's MAX_ERRNO */

static const struct {
	const char *name;
	uint32_t action;
	bool takes_errno;
} actions[] = {
	{ "SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, false },
	{ "SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, false },
	{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, false },
	{ "SCMP_ACT_TRAP", SECCOMP_RET_TRAP, false },
	{ "SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, true },
	{ "SCMP_ACT_TRACE", SECCOMP_RET_TRACE, true },
	{ "SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, false },
	{ "SCMP_ACT_LOG", SECCOMP_RET_LOG, false },
	{ "SCMP_ACT_NOTIFY", SECCOMP_RET_USER_NOTIF, false },
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

static int read_condition(const struct oci_syscall_arg *arg, struct condition *out, struct err *err)
{
	static const struct {
		const char *name;
		enum comparison comparison;
	} operators[] = {
		{ "SCMP_CMP_NE", CMP_NE },
		{ "SCMP_CMP_LT", CMP_LT },
		{ "SCMP_CMP_LE", CMP_LE },
		{ "SCMP_CMP_EQ", CMP_EQ },
		{ "SCMP_CMP_GE", CMP_GE },
		{ "SCMP_CMP_GT", CMP_GT },
		{ "SCMP_CMP_MASKED_EQ", CMP_MASKED_EQ },
	};

	for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
		if (!str_eq(operators[i].name, arg->op))
			continue;
		*out = (struct condition){ arg->index, operators[i].comparison, arg->value,
					   arg->value_two };
		return arg->index < 6
			       ? 0
			       : err_set(err, 0, "a system call has no argument %u", arg->index);
	}
	return err_set(err, 0, "unknown operator '%.64s'", arg->op);
}

static void add(struct rules *rules, struct rule rule)
{
	if ((rules->count & (rules->count - 1)) == 0) /* doubles at each power of two */
		rules->items = xrealloc(rules->items, rules->count ? 2 * rules->count : 1,
					sizeof(*rules->items));
	rule.order = rules->count;
	rules->items[rules->count++] = rule;
}

/* The kernel's order of actions, the strictest first, is that of these numbers with a sign. */
static bool is_stricter(uint32_t a, uint32_t b)
{
	return (int32_t)(a & SECCOMP_RET_ACTION_FULL) < (int32_t)(b & SECCOMP_RET_ACTION_FULL);
}

/*
 * A call that can also be made through another one has its arguments in memory there, where no
 * filter sees them. They match the conditions of a rule that forbids, and do not match those of
 * one that allows. Returns the call's own number, -1 where it has none.
 */
static int add_multiplexed(struct rules *rules, int library_number, const struct rule *rule)
{
	struct rule indirect = { .name = rule->name, .action = rule->action, .n_conditions = 1 };
	uint32_t number;
	int direct;

	if (!x86_multiplexed(library_number, &indirect.nr, &number, &direct))
		return library_number;
	indirect.conditions[0] = (struct condition){ .comparison = CMP_EQ, .value = number };
	if (!rule->n_conditions || is_stricter(rule->action, rules->default_action))
		add(rules, indirect);
	return direct;
}

static void add_name(struct rules *rules, const char *name, struct rule rule)
{
	const struct architecture *architecture = rules->architecture;
	int nr = seccomp_syscall_resolve_name_arch(architecture->library, name);

	rule.name = name;
	if (architecture->library == SCMP_ARCH_X86)
		nr = add_multiplexed(rules, nr, &rule);
	if (nr < 0)
		return; /* newer than the library, or not of this architecture: it cannot match */
	rule.nr = (uint32_t)nr;
	if (rule.nr > rules->newest)
		rules->newest = rule.nr;
	add(rules, rule);
}

/* An argument with two conditions: each of all the conditions is then enough by itself. */
static bool has_alternatives(const struct rule *all)
{
	unsigned int seen = 0;

	for (size_t i = 0; i < all->n_conditions; i++) {
		if (seen & 1u << all->conditions[i].arg)
			return true;
		seen |= 1u << all->conditions[i].arg;
	}
	return false;
}

static int add_syscall(struct rules *rules, const struct oci_syscall *s, struct err *err)
{
	struct rule all = { .n_conditions = 0 };
	bool alternatives = s->n_args > CONDITIONS_MAX;

	if (read_action(s->action, s->has_errno_ret, s->errno_ret, &all.action, err) < 0)
		return -1;
	for (size_t i = 0; i < s->n_args && !alternatives; i++) {
		if (read_condition(&s->args[i], &all.conditions[all.n_conditions++], err) < 0)
			return -1;
		alternatives = has_alternatives(&all);
	}
	for (size_t j = 0; j < s->n_names; j++) {
		if (!alternatives)
			add_name(rules, s->names[j], all);
		for (size_t i = 0; alternatives && i < s->n_args; i++) {
			struct rule one = { .action = all.action, .n_conditions = 1 };

			if (read_condition(&s->args[i], &one.conditions[0], err) < 0)
				return -1;
			add_name(rules, s->names[j], one);
		}
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;

	if (x->nr != y->nr)
		return x->nr < y->nr ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static bool same_conditions(const struct rule *a, const struct rule *b)
{
	for (size_t i = 0; i < a->n_conditions; i++) {
		const struct condition *x = &a->conditions[i], *y = &b->conditions[i];

		if (x->arg != y->arg || x->comparison != y->comparison || x->value != y->value ||
		    x->value_two != y->value_two)
			return false;
	}
	return a->n_conditions == b->n_conditions;
}

/* Keeps of the rules of one call, n from `from` on, those that hold. */
static int settle(struct rules *rules, size_t from, size_t n, size_t *kept, struct err *err)
{
	const struct rule *items = rules->items + from;

	for (size_t i = 0; i < n; i++) {
		if (items[i].n_conditions == 0) {
			rules->items[(*kept)++] = items[i];
			return 0;
		}
	}
	for (size_t i = 1; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (items[i].action != items[j].action &&
			    same_conditions(&items[i], &items[j]))
				return err_set(err, 0, "two rules for %.64s contradict each other",
					       items[i].name);
	for (size_t i = 0; i < n; i++)
		rules->items[(*kept)++] = items[i];
	return 0;
}

static int settle_all(struct rules *rules, struct err *err)
{
	size_t kept = 0, n;

	for (size_t i = 0; i < rules->count; i += n) {
		for (n = 1; i + n < rules->count && rules->items[i + n].nr == rules->items[i].nr;)
			n++;
		if (settle(rules, i, n, &kept, err) < 0)
			return -1;
	}
	rules->count = kept;
	return 0;
}

/* Whether a call that no rule names is neither made nor left to somebody else. */
static bool refuses(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_TRACE:
		return false;
	default:
		return true;
	}
}

int rules_make(const struct oci_seccomp *seccomp, const struct architecture *architecture,
	       struct rules *rules, struct err *err)
{
	*rules = (struct rules){ .architecture = architecture };
	if (read_action(seccomp->default_action, seccomp->has_default_errno_ret,
			seccomp->default_errno_ret, &rules->default_action, err) < 0)
		return err_wrap(err, "default action");
	for (size_t i = 0; i < seccomp->n_syscalls; i++) {
		if (add_syscall(rules, &seccomp->syscalls[i], err) < 0) {
			free(steal(rules->items));
			return err_wrap(err, "syscalls[%zu]", i);
		}
	}
	if (rules->count)
		qsort(rules->items, rules->count, sizeof(*rules->items), by_number);
	if (settle_all(rules, err) < 0) {
		free(steal(rules->items));
		return -1;
	}
	rules->answer_newer = rules->newest && refuses(rules->default_action);
	return 0;
}

int seccomp_check_names(const struct oci_seccomp *seccomp, struct err *err)
{
	for (size_t i = 0; i < seccomp->n_syscalls; i++)
		for (size_t j = 0; j < seccomp->syscalls[i].n_names; j++)
			if (seccomp_syscall_resolve_name(seccomp->syscalls[i].names[j]) ==
			    __NR_SCMP_ERROR)
				return err_set(err, 0,
					       "linux.seccomp.syscalls: libseccomp does not know "
					       "the system call '%.64s'",
					       seccomp->syscalls[i].names[j]);
	return 0;
}
