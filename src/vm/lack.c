/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lack of memory. The host's OOM killer may end processes of the machine, which its count tells of;
 * the guest's ends processes of the workload, which engines cannot see there, and are told of on
 * the host. For a workload with a limit of its own: what it costs is a process.
 */
#include "base/log.h"
#include "cgroup/stats.h"
#include "oci/config.h"
#include "vm/jail.h"
#include "vm/monitor.h"

static bool has_limit(const struct oci_linux *linux_)
{
	const struct oci_linux_resources *resources = linux_ ? linux_->resources : NULL;
	const struct oci_memory *memory = resources ? resources->memory : NULL;

	return memory && memory->has_limit && memory->limit > 0;
}

static int confine_victim(struct err *err)
{
	if (jail_restrict(ROLE_VICTIM, role_reach[ROLE_VICTIM].capabilities, err) < 0)
		return -1;
	return filter_load(ROLE_VICTIM, err);
}

void lack_open(struct monitor *monitor)
{
	const char *path = monitor->container->cgroup_path;
	struct err err;

	if (!path)
		return;
	monitor->oom_count = cgroup_oom_open(path, NULL);
	if (has_limit(monitor->container->config->linux_) &&
	    oom_teller_open(&monitor->oom_teller, path, confine_victim, &err) < 0)
		log_debug("%s", err.text);
}

void lack_close(struct monitor *monitor)
{
	if (monitor->ran_out)
		oom_teller_tell(&monitor->oom_teller);
	oom_teller_close(&monitor->oom_teller);
}
