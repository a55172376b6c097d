/* SPDX-License-Identifier: GPL-2.0-or-later */
/* process.rlimits (setrlimit(2)). */
#include "sandbox/process.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <ctype.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
	const char *name;
	__rlimit_resource_t resource;
} limits[] = {
	{ "RLIMIT_AS", RLIMIT_AS },
	{ "RLIMIT_CORE", RLIMIT_CORE },
	{ "RLIMIT_CPU", RLIMIT_CPU },
	{ "RLIMIT_DATA", RLIMIT_DATA },
	{ "RLIMIT_FSIZE", RLIMIT_FSIZE },
	{ "RLIMIT_LOCKS", RLIMIT_LOCKS },
	{ "RLIMIT_MEMLOCK", RLIMIT_MEMLOCK },
	{ "RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE },
	{ "RLIMIT_NICE", RLIMIT_NICE },
	{ "RLIMIT_NOFILE", RLIMIT_NOFILE },
	{ "RLIMIT_NPROC", RLIMIT_NPROC },
	{ "RLIMIT_RSS", RLIMIT_RSS },
	{ "RLIMIT_RTPRIO", RLIMIT_RTPRIO },
	{ "RLIMIT_RTTIME", RLIMIT_RTTIME },
	{ "RLIMIT_SIGPENDING", RLIMIT_SIGPENDING },
	{ "RLIMIT_STACK", RLIMIT_STACK },
};

static int find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (str_eq(limits[i].name, name))
			return (int)i;
	return -1;
}

/* Without CAP_SYS_RESOURCE a hard limit only goes down; above fs.nr_open none goes. */
static void advise(const char *type, __rlimit_resource_t resource, struct err *err)
{
	struct rlimit own;
	char name[32] = "";

	if (getrlimit(resource, &own) < 0)
		return;
	for (size_t i = strlen("RLIMIT_"), n = 0; type[i] && n < sizeof(name) - 1; i++, n++)
		name[n] = (char)tolower((unsigned char)type[i]);
	err_hint(err,
		 "going above our own hard limit of %llu takes CAP_SYS_RESOURCE: ask for no more "
		 "(podman and docker: --ulimit %s=%llu)",
		 (unsigned long long)own.rlim_max, name, (unsigned long long)own.rlim_max);
}

static int set_one(const struct oci_rlimit *limit, struct err *err)
{
	struct rlimit value = { .rlim_cur = limit->soft, .rlim_max = limit->hard };
	int i = find(limit->type);

	if (i < 0)
		return err_set(err, 0, "process.rlimits: unknown limit '%s'", limit->type);
	if (limit->soft > limit->hard)
		return err_set(err, 0, "process.rlimits: %s: soft is above hard", limit->type);
	if (setrlimit(limits[i].resource, &value) == 0)
		return 0;
	err_set(err, errno, "set %s to %llu", limit->type, (unsigned long long)limit->hard);
	if (err->code == EPERM)
		advise(limit->type, limits[i].resource, err);
	return -1;
}

int rlimits_apply(const struct oci_process *process, struct err *err)
{
	for (size_t i = 0; i < process->n_rlimits; i++) {
		for (size_t j = 0; j < i; j++)
			if (str_eq(process->rlimits[i].type, process->rlimits[j].type))
				return err_set(err, 0, "process.rlimits: %s is there twice",
					       process->rlimits[i].type);
		if (set_one(&process->rlimits[i], err) < 0)
			return -1;
	}
	return 0;
}

void rlimits_raise(const struct oci_process *process, pid_t pid)
{
	for (size_t i = 0; i < process->n_rlimits; i++) {
		int j = find(process->rlimits[i].type);
		struct rlimit value;

		if (j < 0 || prlimit(pid, limits[j].resource, NULL, &value) < 0 ||
		    process->rlimits[i].hard <= value.rlim_max)
			continue;
		value.rlim_max = process->rlimits[i].hard;
		if (prlimit(pid, limits[j].resource, &value, NULL) < 0)
			continue; /* rlimits_apply() meets the same and tells */
	}
}
