/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the engine of namespaces does inside a container, and has to be done beside a machine. */
#include "runtime/private.h"

#include "base/fd.h"
#include "guest/refuse.h"
#include "oci/config.h"
#include "sandbox/hooks.h"
#include "sandbox/sandbox.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>

/*
 * Of a container's namespaces a hook can only be in the network's: its files are the guest's.
 */
static int run_create_container(const struct instance *instance, const struct oci_hooks *hooks,
				const char *state, struct err *err)
{
	_cleanup_fd_ int own = -1, its = -1;
	char path[64];
	int r;

	if (!hooks->n_create_container)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)instance->container.pid);
	its = open(path, O_RDONLY | O_CLOEXEC);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own < 0 || its < 0 || setns(its, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter the container's network namespace for a hook");
	r = hooks_run(hooks->create_container, hooks->n_create_container, "createContainer", state,
		      err);
	if (setns(own, CLONE_NEWNET) < 0)
		return err_set(err, errno, "leave the container's network namespace");
	return r;
}

int beside_machine_hooks(const struct instance *instance, struct err *err)
{
	const struct oci_hooks *hooks = instance->config->hooks;
	_cleanup_free_ char *state = NULL;

	if (!hooks || instance->container.isolation != ISOLATION_VM)
		return 0;
	state = instance_state(instance);
	if (hooks_run(hooks->prestart, hooks->n_prestart, "prestart", state, err) < 0 ||
	    hooks_run(hooks->create_runtime, hooks->n_create_runtime, "createRuntime", state, err) <
		    0)
		return -1;
	return run_create_container(instance, hooks, state, err);
}

int beside_machine_check(const struct instance *instance, struct err *err)
{
	if (instance->container.isolation != ISOLATION_VM)
		return 0;
	beside_machine_warn(instance, instance->config->process);
	return guest_refuse(instance->config, err);
}

void beside_machine_warn(const struct instance *instance, const struct oci_process *process)
{
	if (process && instance->container.isolation == ISOLATION_VM)
		sandbox_warn(process);
}
