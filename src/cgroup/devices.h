/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which devices a container may use: config.json's linux.resources.devices (runtime-spec,
 * config-linux.md "Allowed Device list"). The rules are read in order and a later one wins; what
 * no rule names is forbidden; what every container is given (/dev/null and its like) is allowed.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oci_linux_resources;
struct settings;

#define DEVICE_ANY (-1)

struct device_rule {
	bool allow;
	uint32_t type;	      /* BPF_DEVCG_DEV_*; 0: both */
	uint32_t access;      /* BPF_DEVCG_ACC_* */
	int64_t major, minor; /* DEVICE_ANY */
};

struct device_rules {
	struct device_rule *items;
	size_t count;
};

/*
 * device_rules_read() - the rules of config.json and those for the default devices after them.
 * None at all where config.json has none. Returns 0 (free items), or -1 with err set.
 */
int device_rules_read(const struct oci_linux_resources *resources, struct device_rules *rules,
		      struct err *err);

static inline void device_rules_cleanup(struct device_rules *rules)
{
	free(rules->items);
}

/*
 * device_rules_v1() - what to write to devices.allow and devices.deny for the rules.
 * v1 takes a rule back only as a whole: an error where that cannot say what the rules mean.
 */
int device_rules_v1(const struct device_rules *rules, struct settings *settings, struct err *err);

/* device_rules_open() - whether the rules forbid nothing. */
bool device_rules_open(const struct device_rules *rules);

/*
 * device_program() - a BPF_PROG_TYPE_CGROUP_DEVICE program for the rules.
 * Returns its instructions, to be freed, and their number.
 */
struct bpf_insn *device_program(const struct device_rules *rules, size_t *count);

/*
 * device_attach() - put the rules into force in a v2 cgroup.
 * @replace: the cgroup may have such a program, whose place it takes.
 *
 * Returns 0, or -1 with err set.
 */
int device_attach(const struct device_rules *rules, int dirfd, bool replace, struct err *err);
