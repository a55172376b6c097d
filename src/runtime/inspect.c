/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a container can be asked: what it uses, and its processes. Nothing changes by that. */
#include "runtime/private.h"

#include "oci/processes.h"

struct moat_stats *instance_stats(struct instance *instance, struct err *err)
{
	enum status status = instance_status(instance);
	struct moat_stats *stats;

	if (status == STATUS_STOPPED || status == STATUS_CREATING)
		return instance_wrong_state(instance, "read the statistics of", "", err), NULL;
	if (instance_has(instance, instance->engine->stats, "read the statistics of", err) < 0)
		return NULL;
	stats = instance->engine->stats(&instance->container, err);
	if (!stats)
		over_explain(instance, "read the statistics of", err);
	return stats;
}

int instance_oom_watch(struct instance *instance, struct err *err)
{
	if (instance_has(instance, instance->engine->oom_watch, "watch", err) < 0)
		return -1;
	return instance->engine->oom_watch(&instance->container, err);
}

int instance_processes(struct instance *instance, pid_t **pids, size_t *count, struct err *err)
{
	enum status status = instance_status(instance);

	*pids = NULL;
	*count = 0;
	if (status == STATUS_CREATING)
		return instance_wrong_state(instance, "list the processes of", "", err);
	if (status == STATUS_STOPPED) {
		/* Without a pid namespace, what init started may have outlived it. */
		if (instance->container.cgroup_path && instance->engine->processes)
			instance->engine->processes(&instance->container, pids, count, NULL);
		return 0;
	}
	if (instance_has(instance, instance->engine->processes, "list the processes of", err) < 0)
		return -1;
	if (instance->engine->processes(&instance->container, pids, count, err) == 0)
		return 0;
	return over_explain(instance, "list the processes of", err);
}

bool instance_describes(const struct instance *instance)
{
	return instance->engine->describe != NULL;
}

struct moat_processes *instance_describe(struct instance *instance, struct err *err)
{
	enum status status = instance_status(instance);
	struct moat_processes *processes;

	if (status == STATUS_CREATING)
		return instance_wrong_state(instance, "list the processes of", "", err), NULL;
	if (status == STATUS_STOPPED)
		return moat_processes_new();
	processes = instance->engine->describe(&instance->container, err);
	if (!processes)
		over_explain(instance, "list the processes of", err);
	return processes;
}
