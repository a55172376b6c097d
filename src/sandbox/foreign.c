/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A new user namespace beside namespaces that are joined (the network that an engine prepared, a
 * pod's): it has no rights over those, so that what takes such rights is done by the broker, which
 * is in them and still has the caller's: names, sysctls, and mounts that show what is in them. In
 * those of the host that it stays in the caller itself can make such mounts.
 */
#include "sandbox/setup.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#include <sched.h>
#include <signal.h>

#define STACK_SIZE (256u << 10)

static const struct {
	const char *type;
	uint64_t shows;
} filesystems[] = {
	{ "sysfs", CLONE_NEWNET },
	{ "mqueue", CLONE_NEWIPC },
	{ "proc", CLONE_NEWPID },
};

/* Mounts of file systems that show one of the namespaces in `shown`. */
static int make_mounts(struct setup *setup, uint64_t shown, struct err *err)
{
	for (size_t i = 0; i < setup->config->n_mounts; i++) {
		const struct oci_mount *mount = &setup->config->mounts[i];
		struct mount_options *o = &setup->mounts[i];

		for (size_t j = 0; j < ARRAY_LEN(filesystems); j++) {
			if (o->bind || o->remount || !(filesystems[j].shows & shown) ||
			    !str_eq(mount->type, filesystems[j].type))
				continue;
			o->source = mount_filesystem(mount->type, mount->source, o->data, o->n_data,
						     o->set, err);
			if (o->source < 0)
				return err_wrap(err, "mount %s", mount->destination);
		}
	}
	return 0;
}

struct order {
	struct setup *setup;
	struct err *err;
};

static int proc_main(void *argument)
{
	struct order *order = argument;

	return make_mounts(order->setup, CLONE_NEWPID, order->err) < 0;
}

/*
 * A pid namespace that was joined holds for children, and a procfs shows the one of its maker: a
 * child with our memory and descriptors makes it, while we wait.
 */
static int make_proc(struct setup *setup, struct err *err)
{
	_cleanup_free_ char *stack = xcalloc(1, STACK_SIZE);
	struct order order = { setup, err };
	pid_t child = clone(proc_main, stack + STACK_SIZE,
			    CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, &order);

	if (child < 0)
		return err_set(err, errno, "make a process");
	return proc_wait(child) == 0 ? 0 : -1;
}

int setup_hosts(struct setup *setup, struct err *err)
{
	const struct namespaces *namespaces = &setup->namespaces;

	if (!(namespaces->create & CLONE_NEWUSER) || geteuid() != 0)
		return 0;
	return make_mounts(setup, ~(namespaces->create | namespaces->join), err);
}

int setup_foreign(struct setup *setup, struct err *err)
{
	uint64_t foreign = setup->foreign;

	if ((foreign & CLONE_NEWUTS) && setup_names(setup, err) < 0)
		return -1;
	if (foreign && sysctl_apply(setup, foreign, err) < 0)
		return -1;
	if (make_mounts(setup, foreign & ~(uint64_t)CLONE_NEWPID, err) < 0)
		return -1;
	return foreign & CLONE_NEWPID ? make_proc(setup, err) : 0;
}
