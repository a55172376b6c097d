/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Namespaces: which are made, which are joined, and what is written into new ones. */
#include "sandbox/namespaces.h"
#include "sandbox/rootless.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static const struct {
	const char *name; /* in config.json */
	const char *file; /* in /proc/PID/ns */
	uint64_t flag;
} kinds[NAMESPACE_KINDS] = {
	{ "mount", "mnt", CLONE_NEWNS },	 { "network", "net", CLONE_NEWNET },
	{ "ipc", "ipc", CLONE_NEWIPC },		 { "uts", "uts", CLONE_NEWUTS },
	{ "cgroup", "cgroup", CLONE_NEWCGROUP }, { "time", "time", CLONE_NEWTIME },
	{ "pid", "pid", CLONE_NEWPID },		 { "user", "user", CLONE_NEWUSER },
};

/* A path to the namespace that the caller is in asks for nothing (and setns(2) may refuse it). */
static bool is_own(int fd, size_t kind)
{
	char path[64];
	struct stat own, given;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[kind].file);
	return stat(path, &own) == 0 && fstat(fd, &given) == 0 && own.st_dev == given.st_dev &&
	       own.st_ino == given.st_ino;
}

static int open_path(struct namespaces *namespaces, size_t kind, const char *path, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int type;

	if (fd < 0)
		return err_set(err, errno, "open the %s namespace %s", kinds[kind].name, path);
	type = ioctl(fd, NS_GET_NSTYPE);
	if (type < 0)
		return err_set(err, 0, "%s is not a namespace", path);
	if ((uint64_t)type != kinds[kind].flag)
		return err_set(err, 0, "%s is not a namespace of the kind '%s'", path,
			       kinds[kind].name);
	if (is_own(fd, kind))
		return 0;
	namespaces->join |= kinds[kind].flag;
	namespaces->fds[kind] = fd_steal(&fd);
	return 0;
}

int namespaces_open(const struct oci_linux *config, struct namespaces *namespaces, struct err *err)
{
	uint64_t seen = 0;

	*namespaces = (struct namespaces){ 0 };
	for (size_t i = 0; i < NAMESPACE_KINDS; i++)
		namespaces->fds[i] = -1;
	for (size_t i = 0; i < config->n_namespaces; i++) {
		const struct oci_namespace *entry = &config->namespaces[i];
		size_t kind = 0;

		while (kind < NAMESPACE_KINDS && !str_eq(kinds[kind].name, entry->type))
			kind++;
		if (kind == NAMESPACE_KINDS)
			return err_set(err, 0, "linux.namespaces: unknown kind '%s'", entry->type);
		if (seen & kinds[kind].flag)
			return err_set(err, 0, "linux.namespaces: '%s' is there twice",
				       entry->type);
		seen |= kinds[kind].flag;
		if (!entry->path || !*entry->path)
			namespaces->create |= kinds[kind].flag;
		else if (open_path(namespaces, kind, entry->path, err) < 0)
			return -1;
	}
	return 0;
}

void namespaces_close(struct namespaces *namespaces)
{
	for (size_t i = 0; i < NAMESPACE_KINDS; i++)
		fd_replace(&namespaces->fds[i], -1);
}

int namespaces_join(const struct namespaces *namespaces, uint64_t mask, struct err *err)
{
	uint64_t left = namespaces->join & mask;

	/*
	 * Those of the host can only be joined before the user namespace, those that the user
	 * namespace owns by a rootless caller only after it: two rounds.
	 */
	for (int round = 0; round < 2 && left; round++) {
		for (size_t i = 0; i < NAMESPACE_KINDS; i++) {
			if (!(left & kinds[i].flag))
				continue;
			if (setns(namespaces->fds[i], (int)kinds[i].flag) == 0)
				left &= ~kinds[i].flag;
			else if (round || errno != EPERM || !(left & CLONE_NEWUSER) ||
				 kinds[i].flag == CLONE_NEWUSER)
				return err_set(err, errno, "join the %s namespace", kinds[i].name);
		}
	}
	return 0;
}

bool namespaces_need_broker(const struct namespaces *namespaces)
{
	if (namespaces->join & (CLONE_NEWPID | CLONE_NEWUSER))
		return true;
	return (namespaces->create & CLONE_NEWUSER) && namespaces->join;
}

bool namespaces_have(const struct namespaces *namespaces, uint64_t kind)
{
	return (namespaces->create | namespaces->join) & kind;
}

int namespaces_joined(const struct namespaces *namespaces, uint64_t kind)
{
	for (size_t i = 0; i < NAMESPACE_KINDS; i++)
		if (kinds[i].flag == kind && (namespaces->join & kind))
			return namespaces->fds[i];
	return -1;
}

static int write_map(int proc, pid_t pid, const char *file, const struct oci_id_mapping *maps,
		     size_t count, struct err *err)
{
	char path[64], text[4096];
	size_t used = 0;

	if (!count)
		return err_set(err, 0, "a new user namespace needs linux.%s",
			       str_eq(file, "uid_map") ? "uidMappings" : "gidMappings");
	for (size_t i = 0; i < count; i++) {
		int n = snprintf(text + used, sizeof(text) - used, "%u %u %u\n",
				 maps[i].container_id, maps[i].host_id, maps[i].size);

		if (n < 0 || (size_t)n >= sizeof(text) - used)
			return err_set(err, E2BIG, "write %s", file); /* the kernel takes a page */
		used += (size_t)n;
	}
	snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	return file_write(proc, path, text, err);
}

int namespaces_map_ids(const struct oci_linux *config, int proc, pid_t pid, struct err *err)
{
	if (config->n_uid_mappings && config->n_gid_mappings && rootless())
		return rootless_map_ids(config, proc, pid, err);
	if (write_map(proc, pid, "uid_map", config->uid_mappings, config->n_uid_mappings, err) < 0)
		return -1;
	return write_map(proc, pid, "gid_map", config->gid_mappings, config->n_gid_mappings, err);
}

int namespaces_enter_time(const struct oci_linux *config, int proc, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	char text[256];
	int used = 0;

	if (unshare(CLONE_NEWTIME) < 0)
		return err_set(err, errno, "make a time namespace");
	for (size_t i = 0; i < config->n_time_offsets; i++) {
		const struct oci_time_offset *offset = &config->time_offsets[i];

		used += snprintf(text + used, sizeof(text) - (size_t)used, "%s %lld %u\n",
				 offset->key, (long long)offset->secs, offset->nanosecs);
		if (used >= (int)sizeof(text))
			return err_set(err, E2BIG, "set the clocks of the time namespace");
	}
	if (used && file_write(proc, "self/timens_offsets", text, err) < 0)
		return err_wrap(err, "set the clocks of the time namespace");
	/* unshare(2) moves only children; the offsets are fixed once a process is inside. */
	fd = openat(proc, "self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWTIME) < 0)
		return err_set(err, errno, "enter the time namespace");
	return 0;
}

int namespaces_compare(int proc, pid_t pid, uint64_t *different, struct err *err)
{
	*different = 0;
	for (size_t i = 0; i < NAMESPACE_KINDS; i++) {
		char own_path[64], its_path[64];
		struct stat own, its;

		snprintf(own_path, sizeof(own_path), "self/ns/%s", kinds[i].file);
		snprintf(its_path, sizeof(its_path), "%d/ns/%s", (int)pid, kinds[i].file);
		if (fstatat(proc, own_path, &own, 0) < 0) {
			if (errno == ENOENT) /* a kernel without that kind */
				continue;
			return err_set(err, errno, "look at our own %s namespace", kinds[i].name);
		}
		if (fstatat(proc, its_path, &its, 0) < 0)
			return err_set(err, errno, "look at the %s namespace of process %d",
				       kinds[i].name, (int)pid);
		if (own.st_ino != its.st_ino || own.st_dev != its.st_dev)
			*different |= kinds[i].flag;
	}
	return 0;
}
