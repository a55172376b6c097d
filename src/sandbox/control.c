/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A running container, seen and held through its cgroup. */
#include "sandbox/control.h"

#include "cgroup/cgroup.h"
#include "cgroup/stats.h"

static int need_cgroup(const struct container *container, const char *action, struct err *err)
{
	if (container->cgroup_path)
		return 0;
	return err_set(err, 0, "%s container %s: it has no cgroup of its own", action,
		       container->id);
}

int plain_pause(struct container *container, struct err *err)
{
	if (need_cgroup(container, "pause", err) < 0)
		return -1;
	return cgroup_freeze(container->cgroup_path, true, err);
}

int plain_resume(struct container *container, struct err *err)
{
	if (need_cgroup(container, "resume", err) < 0)
		return -1;
	return cgroup_freeze(container->cgroup_path, false, err);
}

int plain_update(struct container *container, const struct oci_linux_resources *resources,
		 struct err *err)
{
	if (need_cgroup(container, "change the limits of", err) < 0)
		return -1;
	return cgroup_update(container->cgroup_path, resources, err);
}

int plain_processes(struct container *container, pid_t **pids, size_t *count, struct err *err)
{
	if (need_cgroup(container, "list the processes of", err) < 0)
		return -1;
	return cgroup_processes(container->cgroup_path, pids, count, err);
}

struct moat_stats *plain_stats(struct container *container, struct err *err)
{
	if (need_cgroup(container, "read the statistics of", err) < 0)
		return NULL;
	return cgroup_stats(container->cgroup_path, err);
}

int plain_oom_watch(struct container *container, struct err *err)
{
	if (need_cgroup(container, "watch", err) < 0)
		return -1;
	return cgroup_oom_watch(container->cgroup_path, err);
}
