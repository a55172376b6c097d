/* SPDX-License-Identifier: GPL-2.0-or-later */
/* linux.memoryPolicy: from which NUMA nodes memory comes (set_mempolicy(2)). */
#include "cgroup/memory_policy.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES_MAX 1024 /* what Linux can be built for */

struct named_value {
	const char *name;
	unsigned int value;
};

static const struct named_value modes[] = {
	{ "MPOL_DEFAULT", MPOL_DEFAULT },
	{ "MPOL_BIND", MPOL_BIND },
	{ "MPOL_INTERLEAVE", MPOL_INTERLEAVE },
	{ "MPOL_WEIGHTED_INTERLEAVE", 6 }, /* Linux 6.9; no header of Debian 12 has it */
	{ "MPOL_PREFERRED", MPOL_PREFERRED },
	{ "MPOL_PREFERRED_MANY", MPOL_PREFERRED_MANY },
	{ "MPOL_LOCAL", MPOL_LOCAL },
};

static const struct named_value flags[] = {
	{ "MPOL_F_NUMA_BALANCING", MPOL_F_NUMA_BALANCING },
	{ "MPOL_F_RELATIVE_NODES", MPOL_F_RELATIVE_NODES },
	{ "MPOL_F_STATIC_NODES", MPOL_F_STATIC_NODES },
};

/* The parser of config.json has let only these names through. */
static unsigned int value_of(const struct named_value *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(table[i].name, name))
			return table[i].value;
	return 0;
}

int memory_policy_apply(const struct oci_memory_policy *policy, struct err *err)
{
	unsigned long nodes[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };
	const char *list = policy && policy->nodes ? policy->nodes : "";
	unsigned int mode;

	if (!policy)
		return 0;
	if (*list && str_to_set(list, nodes, NODES_MAX) < 0)
		return err_set(err, 0,
			       "linux.memoryPolicy.nodes: expected a list of nodes such as "
			       "\"0-1\", found '%.64s'",
			       list);
	mode = value_of(modes, ARRAY_LEN(modes), policy->mode);
	for (size_t i = 0; i < policy->n_flags; i++)
		mode |= value_of(flags, ARRAY_LEN(flags), policy->flags[i]);
	/* The kernel takes one bit less than it is told of. */
	if (syscall(SYS_set_mempolicy, (int)mode, *list ? nodes : NULL,
		    *list ? NODES_MAX + 1ul : 0ul) == 0)
		return 0;
	err_set(err, errno, "set linux.memoryPolicy to %s%s%s", policy->mode,
		*list ? " of nodes " : "", list);
	if (err->code == ENOSYS)
		return err_hint(err, "this kernel knows no NUMA");
	return err->code == EINVAL
		       ? err_hint(err, "does the kernel know the mode and its flags, and "
				       "may the cgroup use the nodes?")
		       : -1;
}
