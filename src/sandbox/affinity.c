/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * process.execCPUAffinity: on which CPUs a process of exec runs before it joins the container's
 * cgroup, and from then on (sched_setaffinity(2)).
 */
#include "sandbox/process.h"

#include "base/str.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#include <sched.h>

#define CPUS_MAX 8192 /* what Linux can be built for */

struct cpus {
	unsigned long bits[CPUS_MAX / (8 * sizeof(unsigned long))];
};

static int read_list(const char *name, const char *list, struct cpus *cpus, struct err *err)
{
	if (str_to_set(list, cpus->bits, CPUS_MAX) >= 0)
		return 0;
	return err_set(err, 0,
		       "process.execCPUAffinity.%s: expected a list of CPUs such as \"0-3,7\", "
		       "found '%.64s'",
		       name, list);
}

int affinity_check(const struct oci_process *process, struct err *err)
{
	const struct oci_cpu_affinity *affinity = process->exec_cpu_affinity;
	struct cpus cpus;

	if (affinity && affinity->initial &&
	    read_list("initial", affinity->initial, &cpus, err) < 0)
		return -1;
	if (affinity && affinity->final && read_list("final", affinity->final, &cpus, err) < 0)
		return -1;
	return 0;
}

int sandbox_check_process(const struct oci_process *process, struct err *err)
{
	return affinity_check(process, err);
}

static int apply(const char *name, const char *list, struct err *err)
{
	struct cpus cpus;

	if (!list)
		return 0;
	if (read_list(name, list, &cpus, err) < 0)
		return -1;
	if (sched_setaffinity(0, sizeof(cpus), (const cpu_set_t *)cpus.bits) == 0)
		return 0;
	err_set(err, errno, "set process.execCPUAffinity.%s to %s", name, list);
	return err->code == EINVAL
		       ? err_hint(err, "none of these CPUs is there for the process to use")
		       : -1;
}

int affinity_begin(const struct oci_process *process, struct err *err)
{
	return process->exec_cpu_affinity
		       ? apply("initial", process->exec_cpu_affinity->initial, err)
		       : 0;
}

int affinity_finish(const struct oci_process *process, struct err *err)
{
	return process->exec_cpu_affinity ? apply("final", process->exec_cpu_affinity->final, err)
					  : 0;
}
