/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * linux.sysctl. Only those that a namespace of the container's own holds: any other would change
 * the host.
 */
#include "sandbox/setup.h"

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"

#include <sched.h>
#include <stdio.h>

static const struct {
	const char *prefix; /* ends with a dot: all below it */
	uint64_t namespace_;
	const char *name;
} owners[] = {
	{ "net.", CLONE_NEWNET, "network" },
	{ "fs.mqueue.", CLONE_NEWIPC, "ipc" },
	{ "kernel.msgmax", CLONE_NEWIPC, "ipc" },
	{ "kernel.msgmnb", CLONE_NEWIPC, "ipc" },
	{ "kernel.msgmni", CLONE_NEWIPC, "ipc" },
	{ "kernel.msg_next_id", CLONE_NEWIPC, "ipc" },
	{ "kernel.sem", CLONE_NEWIPC, "ipc" },
	{ "kernel.sem_next_id", CLONE_NEWIPC, "ipc" },
	{ "kernel.shmall", CLONE_NEWIPC, "ipc" },
	{ "kernel.shmmax", CLONE_NEWIPC, "ipc" },
	{ "kernel.shmmni", CLONE_NEWIPC, "ipc" },
	{ "kernel.shm_next_id", CLONE_NEWIPC, "ipc" },
	{ "kernel.shm_rmid_forced", CLONE_NEWIPC, "ipc" },
	{ "kernel.domainname", CLONE_NEWUTS, "uts" },
	{ "kernel.hostname", CLONE_NEWUTS, "uts" },
	{ "user.", CLONE_NEWUSER, "user" },
};

/* "net.ipv4.ip_forward" or "net/ipv4/conf/eth0.1/forwarding": the first separator decides. */
static char *to_path(const char *key)
{
	char *path = xasprintf("sys/%s", key), *name = path + 4;
	size_t first = strcspn(key, "./");

	if (key[first] == '.')
		for (char *p = name; *p; p++)
			*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
	return path;
}

/* Returns an index of owners, ARRAY_LEN(owners) where the host has it. */
static size_t find_owner(const char *path)
{
	size_t i = 0;

	for (; i < ARRAY_LEN(owners); i++) {
		_cleanup_free_ char *owner = to_path(owners[i].prefix);

		if (owner[strlen(owner) - 1] == '/' ? str_starts_with(path, owner)
						    : str_eq(path, owner))
			break;
	}
	return i;
}

static int check_one(const struct setup *setup, const char *key, struct err *err)
{
	_cleanup_free_ char *path = to_path(key);
	size_t i;

	if (!path_is_clean(path))
		return err_set(err, 0, "linux.sysctl: '%s' is not a name of one", key);
	i = find_owner(path);
	if (i == ARRAY_LEN(owners))
		return err_set(err, 0,
			       "linux.sysctl: '%s' is not kept per namespace: it would change the "
			       "host",
			       key);
	if (namespaces_have(&setup->namespaces, owners[i].namespace_))
		return 0;
	return err_set(err, 0,
		       "linux.sysctl: '%s' needs a %s namespace of the container's "
		       "own",
		       key, owners[i].name);
}

int sysctl_check(const struct setup *setup, struct err *err)
{
	for (size_t i = 0; i < setup->linux_->n_sysctl; i++)
		if (check_one(setup, setup->linux_->sysctl[i].key, err) < 0)
			return -1;
	return 0;
}

/* A group inside as its host (host) or it itself numbers it, cut to those that are mapped. */
static uint64_t cut_group(const struct oci_linux *config, uint64_t group, bool host)
{
	uint64_t greatest = 0;

	for (size_t i = 0; i < config->n_gid_mappings; i++) {
		const struct oci_id_mapping *map = &config->gid_mappings[i];
		uint64_t base = host ? map->host_id : map->container_id;

		if (group >= map->container_id && group - map->container_id < map->size)
			return base + (group - map->container_id);
		if (map->size && base + map->size - 1 > greatest)
			greatest = base + map->size - 1;
	}
	return greatest;
}

/*
 * The kernel takes groups as whoever writes them sees them: for a network that was joined, the
 * host. It refuses one that is not mapped, and docker asks for all that there could be.
 */
static char *translate_value(const struct setup *setup, const char *path, const char *value)
{
	bool host = setup->foreign & CLONE_NEWNET;
	unsigned long long first, last;

	if (setup->linux_->n_gid_mappings && str_eq(path, "sys/net/ipv4/ping_group_range") &&
	    sscanf(value, "%llu %llu", &first, &last) == 2 && first <= last)
		return xasprintf("%llu %llu",
				 (unsigned long long)cut_group(setup->linux_, first, host),
				 (unsigned long long)cut_group(setup->linux_, last, host));
	return xstrdup(value);
}

int sysctl_apply(struct setup *setup, uint64_t kinds, struct err *err)
{
	for (size_t i = 0; i < setup->linux_->n_sysctl; i++) {
		_cleanup_free_ char *path = to_path(setup->linux_->sysctl[i].key);
		_cleanup_free_ char *value =
			translate_value(setup, path, setup->linux_->sysctl[i].value);

		if (!(owners[find_owner(path)].namespace_ & kinds))
			continue;
		if (file_write(setup->proc, path, value, err) < 0)
			return err_wrap(err, "set sysctl %s", setup->linux_->sysctl[i].key);
	}
	return 0;
}
