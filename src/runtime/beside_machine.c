/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the engine of namespaces does inside a container, and has to be done beside a machine. */
#include "runtime/private.h"

#include "base/apart.h"
#include "base/fd.h"
#include "guest/refuse.h"
#include "oci/config.h"
#include "sandbox/hooks.h"
#include "sandbox/sandbox.h"
#include "vm/rootless.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

struct inside {
	const struct instance *instance;
	const struct oci_hooks *hooks;
	const char *state;
	int network;
};

static int run_hooks(const struct inside *inside, struct err *err)
{
	return hooks_run(inside->hooks->create_container, inside->hooks->n_create_container,
			 "createContainer", inside->state, err);
}

/* In a child: an ordinary user, or root of a user namespace, has no way back. */
static int run_one_way(const void *data, struct err *err)
{
	const struct inside *inside = data;

	if (rootless_join(inside->instance->container.pid, inside->network, err) < 0 ||
	    apart_bind(err) < 0)
		return -1;
	return run_hooks(inside, err);
}

static int run_and_return(const struct inside *inside, int own, struct err *err)
{
	int r;

	if (setns(inside->network, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter the container's network namespace for a hook");
	r = run_hooks(inside, err);
	if (setns(own, CLONE_NEWNET) < 0)
		return err_set(err, errno, "leave the container's network namespace");
	return r;
}

/*
 * Of a container's namespaces a hook can only be in the network's: its files are the guest's.
 */
static int run_create_container(const struct instance *instance, const struct oci_hooks *hooks,
				const char *state, struct err *err)
{
	struct inside inside = { .instance = instance, .hooks = hooks, .state = state };
	_cleanup_fd_ int own = -1, its = -1;
	struct stat ours, theirs;
	char path[64];

	if (!hooks->n_create_container)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)instance->container.pid);
	its = open(path, O_RDONLY | O_CLOEXEC);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own < 0 || its < 0 || fstat(own, &ours) < 0 || fstat(its, &theirs) < 0)
		return err_set(err, errno, "open the container's network namespace for a hook");
	/* A container without a network; even into its own an ordinary user may not go again. */
	if (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
		return run_hooks(&inside, err);
	inside.network = its;
	if (rootless_one_way())
		return apart_run("run createContainer hooks", run_one_way, &inside, err);
	return run_and_return(&inside, own, err);
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
