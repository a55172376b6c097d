/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the limits of v1 and v2 have in common. */
#pragma once

#include "cgroup/settings.h"

struct oci_memory;
struct oci_linux_resources;

/* limits_check_memory() - refuse limits that contradict each other. 0, or -1 with err set. */
int limits_check_memory(const struct oci_memory *memory, const struct limits_now *now,
			struct err *err);

/* limits_kernel_swaps() - false where the kernel cannot swap, so that any limit of it holds. */
bool limits_kernel_swaps(void);

/*
 * limits_common() - pids, hugepageLimits and rdma, whose files differ little.
 * @suffix: how the files of hugetlb end: "max" (v2) or "limit_in_bytes" (v1).
 */
void limits_common(const struct oci_linux_resources *resources, const char *suffix,
		   struct settings *out);
