/* SPDX-License-Identifier: GPL-2.0-or-later */
/* process.scheduler (sched_setattr(2)), process.ioPriority (ioprio_set(2)). */
#include "sandbox/process.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <linux/ioprio.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

struct named_value {
	const char *name;
	uint64_t value;
};

static const struct named_value policies[] = {
	{ "SCHED_OTHER", SCHED_NORMAL }, { "SCHED_FIFO", SCHED_FIFO },
	{ "SCHED_RR", SCHED_RR },	 { "SCHED_BATCH", SCHED_BATCH },
	{ "SCHED_IDLE", SCHED_IDLE },	 { "SCHED_DEADLINE", SCHED_DEADLINE },
};

static const struct named_value flags[] = {
	{ "SCHED_FLAG_RESET_ON_FORK", SCHED_FLAG_RESET_ON_FORK },
	{ "SCHED_FLAG_RECLAIM", SCHED_FLAG_RECLAIM },
	{ "SCHED_FLAG_DL_OVERRUN", SCHED_FLAG_DL_OVERRUN },
	{ "SCHED_FLAG_KEEP_POLICY", SCHED_FLAG_KEEP_POLICY },
	{ "SCHED_FLAG_KEEP_PARAMS", SCHED_FLAG_KEEP_PARAMS },
	{ "SCHED_FLAG_UTIL_CLAMP_MIN", SCHED_FLAG_UTIL_CLAMP_MIN },
	{ "SCHED_FLAG_UTIL_CLAMP_MAX", SCHED_FLAG_UTIL_CLAMP_MAX },
};

static const struct named_value classes[] = {
	{ "IOPRIO_CLASS_RT", IOPRIO_CLASS_RT },
	{ "IOPRIO_CLASS_BE", IOPRIO_CLASS_BE },
	{ "IOPRIO_CLASS_IDLE", IOPRIO_CLASS_IDLE },
};

static bool look_up(const struct named_value *table, size_t count, const char *name,
		    uint64_t *value)
{
	for (size_t i = 0; i < count; i++) {
		if (!str_eq(table[i].name, name))
			continue;
		*value = table[i].value;
		return true;
	}
	return false;
}

static int apply_scheduler(const struct oci_scheduler *scheduler, struct err *err)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_nice = scheduler->nice,
		.sched_priority = (uint32_t)scheduler->priority,
		.sched_runtime = scheduler->runtime,
		.sched_deadline = scheduler->deadline,
		.sched_period = scheduler->period,
	};
	uint64_t value;

	if (!look_up(policies, ARRAY_LEN(policies), scheduler->policy, &value))
		return err_set(err, 0, "process.scheduler: the policy %s is not supported by Linux",
			       scheduler->policy);
	attr.sched_policy = (uint32_t)value;
	for (size_t i = 0; i < scheduler->n_flags; i++) {
		if (!look_up(flags, ARRAY_LEN(flags), scheduler->flags[i], &value))
			return err_set(err, 0, "process.scheduler: unknown flag %s",
				       scheduler->flags[i]);
		attr.sched_flags |= value;
	}
	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		return err_set(err, errno, "set the scheduler to %s", scheduler->policy);
	return 0;
}

static int apply_io_priority(const struct oci_io_priority *priority, struct err *err)
{
	uint64_t class;

	if (!look_up(classes, ARRAY_LEN(classes), priority->class, &class))
		return err_set(err, 0, "process.ioPriority: unknown class %s", priority->class);
	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		    (int)IOPRIO_PRIO_VALUE(class, (uint64_t)priority->priority)) < 0)
		return err_set(err, errno, "set the I/O priority to %s", priority->class);
	return 0;
}

int scheduling_apply(const struct oci_process *process, struct err *err)
{
	if (process->scheduler && apply_scheduler(process->scheduler, err) < 0)
		return -1;
	return process->io_priority ? apply_io_priority(process->io_priority, err) : 0;
}
