/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tables that the filters are made from, for filter_generate.c, which the build runs. */
#pragma once

#include "vm/jail.h"

#define FILTER_RULE_ARGUMENTS 2
#define FILTER_ABSENT	      3

/* Holds where (argument index & mask) is value. */
struct filter_argument {
	uint8_t index;
	uint64_t mask, value;
};

struct filter_rule {
	struct filter_line line; /* why is NULL at the end of a table */
	struct filter_argument arguments[FILTER_RULE_ARGUMENTS];
};

/* filter_rules() - the table of a role. */
const struct filter_rule *filter_rules(enum role role);

/* Calls that a role without a rule for them is told do not exist (ENOSYS). */
extern const int filter_absent[FILTER_ABSENT];
