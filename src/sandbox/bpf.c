/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A reader of seccomp programs. It follows every path that can be taken; the accumulator is a
 * number, or unknown where it was loaded from arguments that are. Where a test is on an unknown
 * number both ways are followed, and each such place is left only once.
 */
#include "sandbox/bpf.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

#define BOTH (BPF_CAN_ALLOW | BPF_CAN_REFUSE)

struct walk {
	const struct sock_filter *insns;
	size_t count;
	const struct seccomp_data *data;
	bool known;
	bool *left; /* by place: it was left both ways, with an unknown number */
	size_t *todo;
	size_t n_todo;
};

struct value {
	bool known;
	uint32_t number;
};

static unsigned int answer(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return BPF_CAN_ALLOW;
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_USER_NOTIF:
		return BOTH;
	default:
		return BPF_CAN_REFUSE;
	}
}

static struct value load(const struct walk *walk, uint32_t offset)
{
	struct value value = { .known = walk->known || offset < offsetof(struct seccomp_data,
									 instruction_pointer) };

	if (offset > sizeof(*walk->data) - sizeof(value.number))
		value.known = false; /* the kernel takes no such program */
	else
		memcpy(&value.number, (const char *)walk->data + offset, sizeof(value.number));
	return value;
}

/* Returns false for an operation that is not understood. */
static bool compute(struct value *a, uint16_t operation, uint32_t k)
{
	switch (operation) {
	case BPF_AND:
		a->known |= k == 0;
		a->number &= k;
		return true;
	case BPF_OR:
		a->number |= k;
		return true;
	case BPF_RSH:
		a->number = k < 32 ? a->number >> k : 0;
		return k < 32;
	case BPF_SUB:
		a->number -= k;
		return true;
	case BPF_ADD:
		a->number += k;
		return true;
	}
	return false;
}

static bool test(const struct value *a, uint16_t operation, uint32_t k)
{
	switch (operation) {
	case BPF_JEQ:
		return a->number == k;
	case BPF_JGT:
		return a->number > k;
	case BPF_JGE:
		return a->number >= k;
	default:
		return a->number & k;
	}
}

/* From a place that is not a test on the number carried along: to the answer, noting forks. */
static unsigned int follow(struct walk *walk, size_t at)
{
	struct value a = { .known = false };

	while (at < walk->count) {
		const struct sock_filter *insn = &walk->insns[at++];
		uint16_t operation = BPF_OP(insn->code);

		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load(walk, insn->k);
			continue;
		case BPF_RET | BPF_K:
			return answer(insn->k);
		case BPF_JMP | BPF_JA:
			at += insn->k;
			continue;
		}
		if (BPF_CLASS(insn->code) == BPF_ALU && BPF_SRC(insn->code) == BPF_K &&
		    compute(&a, operation, insn->k))
			continue;
		if (BPF_CLASS(insn->code) != BPF_JMP || BPF_SRC(insn->code) != BPF_K)
			return BOTH;
		if (a.known) {
			at += test(&a, operation, insn->k) ? insn->jt : insn->jf;
			continue;
		}
		/*
		 * The number stays unknown on both ways, so that nothing is lost by forgetting it.
		 */
		if (walk->left[at - 1])
			return 0;
		walk->left[at - 1] = true;
		walk->todo[walk->n_todo++] = at + insn->jt;
		at += insn->jf;
	}
	return BOTH;
}

unsigned int bpf_answers(const struct sock_filter *insns, size_t count,
			 const struct seccomp_data *data, bool known)
{
	_cleanup_free_ bool *left = xcalloc(count + 1, sizeof(*left));
	_cleanup_free_ size_t *todo = xcalloc(count + 1, sizeof(*todo));
	struct walk walk = { .insns = insns, .count = count, .data = data, .known = known };
	unsigned int answers;

	walk.left = left;
	walk.todo = todo;
	answers = follow(&walk, 0);
	while (walk.n_todo && answers != BOTH)
		answers |= follow(&walk, walk.todo[--walk.n_todo]);
	return answers;
}
