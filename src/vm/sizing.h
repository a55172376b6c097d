/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How large a machine is, and what its host cgroup must let through. */
#pragma once

#include "base/err.h"
#include "oci/config.h"
#include "oci/settings.h"

#include <stdbool.h>
#include <stdint.h>

struct machine_size {
	uint64_t memory; /* bytes of guest RAM, a multiple of 2 MiB */
	unsigned int vcpus;
};

/*
 * sizing_choose() - from vm.hwConfig, else from linux.resources, else the operator's defaults.
 *
 * The memory limit is the workload's, so RAM is that and what the guest kernel needs, at most
 * the host's: whoever sets a limit does not ask for a machine of that size. A CPU quota is rounded
 * up to whole vCPUs; no machine gets more than the host has.
 * Returns 0, or -1 with err set.
 */
int sizing_choose(const struct oci_config *config, const struct moat_settings *settings,
		  struct machine_size *size, struct err *err);

/*
 * sizing_suits() - whether a running machine of that size may have such a memory limit: it is the
 * size that was asked for whatever the limit, or a new machine would get no more for this one.
 */
bool sizing_suits(const struct oci_config *config, const struct machine_size *size, uint64_t limit);

/* sizing_host_memory() - bytes of memory and swap that this host has in all. */
uint64_t sizing_host_memory(void);

/*
 * sizing_check_memory() - whether the machine that is asked for has at most that much. Machines
 * together may have more than the host, and one more than is free just now; but not more than could
 * ever be. A limit asks for no size, and may be any.
 * Returns 0, or -1 with err set.
 */
int sizing_check_memory(const struct oci_config *config, const struct moat_settings *settings,
			uint64_t most, struct err *err);

/* sizing_queues() - how many queues a device of such a machine has that can have several. */
unsigned int sizing_queues(unsigned int vcpus);

/* The resources of the host's cgroup: the workload's with room for what is not the workload. */
struct host_resources {
	struct oci_linux_resources resources; /* borrows from the workload's */
	struct oci_memory memory;
	struct oci_pids pids;
};

/*
 * sizing_host() - what the cgroup of monitor, vmm and fsd is limited to where the workload is
 * limited to resources (NULL: to nothing): the memory limits grow by
 * the guest kernel's share and settings->overhead, the pids limit counts host threads. Device rules
 * are left out: the machine's processes open none.
 */
void sizing_host(const struct oci_linux_resources *resources, const struct moat_settings *settings,
		 const struct machine_size *size, struct host_resources *host);
