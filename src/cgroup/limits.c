/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the limits of v1 and v2 have in common. */
#include "cgroup/limits.h"

#include "oci/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

bool limits_kernel_swaps(void)
{
	return access("/proc/swaps", F_OK) == 0;
}

int limits_check_memory(const struct oci_memory *memory, const struct limits_now *now,
			struct err *err)
{
	int64_t limit = memory->limit ? memory->limit : now->memory_limit;

	if (memory->limit < -1 || memory->reservation < -1 || memory->swap < -1)
		return err_set(err, 0,
			       "set linux.resources.memory: a limit is a number of bytes, "
			       "or -1 for none");
	if (memory->swap > 0 && limit > memory->swap)
		return err_set(err, 0,
			       "set linux.resources.memory.swap to %" PRId64
			       ": it counts memory and swap together, so it cannot be less than "
			       "memory.limit, %" PRId64,
			       memory->swap, limit);
	if (memory->has_use_hierarchy && !memory->use_hierarchy)
		return err_set(err, 0,
			       "set linux.resources.memory.useHierarchy to false: this kernel "
			       "always counts what the cgroups below use");
	if (memory->check_before_update && memory->limit > 0 &&
	    now->memory_usage > (uint64_t)memory->limit)
		return err_set(err, EBUSY,
			       "set linux.resources.memory.limit to %" PRId64 ", as %" PRIu64
			       " bytes are in use and memory.checkBeforeUpdate is set",
			       memory->limit, now->memory_usage);
	return 0;
}

static void add_hugepages(const struct oci_hugepage_limit *limit, const char *suffix,
			  struct settings *out)
{
	char file[128];

	snprintf(file, sizeof(file), "hugetlb.%.64s.%s", limit->page_size, suffix);
	settings_add(out, "hugetlb", file, "%" PRIu64, limit->limit);
	/* What was reserved but not yet used counts, too, on kernels that can (5.7). */
	snprintf(file, sizeof(file), "hugetlb.%.64s.rsvd.%s", limit->page_size, suffix);
	settings_add(out, "hugetlb", file, "%" PRIu64, limit->limit)->may_lack = true;
}

static void add_rdma(const struct oci_rdma *rdma, struct settings *out)
{
	char handles[32] = "", objects[32] = "";

	if (rdma->has_hca_handles)
		snprintf(handles, sizeof(handles), " hca_handle=%" PRIu32, rdma->hca_handles);
	if (rdma->has_hca_objects)
		snprintf(objects, sizeof(objects), " hca_object=%" PRIu32, rdma->hca_objects);
	if (*handles || *objects)
		settings_add(out, "rdma", "rdma.max", "%s%s%s", rdma->key, handles, objects);
}

void limits_common(const struct oci_linux_resources *r, const char *suffix, struct settings *out)
{
	if (r->pids && r->pids->has_limit && r->pids->limit > 0)
		settings_add(out, "pids", "pids.max", "%" PRId64, r->pids->limit);
	else if (r->pids && r->pids->has_limit)
		settings_add(out, "pids", "pids.max", "max")->may_lack = true;
	for (size_t i = 0; i < r->n_hugepage_limits; i++)
		add_hugepages(&r->hugepage_limits[i], suffix, out);
	for (size_t i = 0; i < r->n_rdma; i++)
		add_rdma(&r->rdma[i], out);
}
