/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mount of type cgroup: on v2 one file system; on v1, and on hybrid hosts, a tmpfs with a
 * directory for each hierarchy. Without a cgroup namespace a v1 container sees only its own part,
 * bound there (cgroups(7), cgroup_namespaces(7)).
 */
#include "sandbox/setup.h"

#include "base/file.h"
#include "base/str.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUPS_MAX 1024 /* each is memory of the kernel's; systemd needs some twenty */

static bool has_namespace(const struct setup *setup)
{
	return namespaces_have(&setup->namespaces, CLONE_NEWCGROUP);
}

/* A directory of the host's own tree. */
static int bind_host(const char *path, uint64_t attributes, struct err *err)
{
	struct mount_attr attr = { .attr_set = attributes };
	_cleanup_fd_ int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0)
		return err_set(err, errno, "open %s", path);
	if (attributes && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "set the options of %s", path);
	return fd_steal(&tree);
}

static int mount_v2(struct setup *setup, const struct mount_options *options, int onto,
		    struct err *err)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fd_ int tree = mount_filesystem("cgroup2", "cgroup", options->data,
						 options->n_data, options->set, err);

	/* In a user namespace whose cgroup namespace is the host's: what can be shown is a bind. */
	if (tree < 0 && (err->code == EPERM || err->code == EBUSY)) {
		bool own = has_namespace(setup) && setup->params->cgroup_path;

		path = xasprintf(CGROUP_ROOT "%s", own ? setup->params->cgroup_path : "");
		tree = bind_host(path, options->set, err);
	}
	return tree < 0 ? -1 : mount_attach(tree, onto, "cgroup2", err);
}

/* "cpu,cpuacct" and "name=systemd" as options of the file system. */
static int mount_hierarchy(const char *controllers, uint64_t attributes, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(controllers);
	const char *data[32];
	size_t count = 0;

	for (char *rest = copy, *name; (name = strsep(&rest, ",")) && count < ARRAY_LEN(data);)
		data[count++] = name;
	return mount_filesystem("cgroup", "cgroup", data, count, attributes, err);
}

static int open_hierarchy(const struct setup *setup, const char *controllers, const char *name,
			  const char *path, uint64_t attributes, struct err *err)
{
	_cleanup_free_ char *host = NULL;

	if (!has_namespace(setup)) {
		host = xasprintf(CGROUP_ROOT "/%s%s", name, path);
		return bind_host(host, attributes, err);
	}
	if (!*controllers)
		return mount_filesystem("cgroup2", "cgroup", NULL, 0, attributes, err);
	return mount_hierarchy(controllers, attributes, err);
}

/* One line of /proc/self/cgroup: ID:CONTROLLERS:PATH, with no controllers for v2. */
static int add_hierarchy(struct setup *setup, char *line, int tmpfs, uint64_t attributes,
			 struct err *err)
{
	char *rest = line, *controllers, *name, *alias;
	_cleanup_fd_ int tree = -1, onto = -1;

	strsep(&rest, ":");
	controllers = strsep(&rest, ":");
	if (!controllers || !rest)
		return err_set(err, 0, "read /proc/self/cgroup: a line is malformed");
	name = !*controllers			       ? (char *)"unified"
	       : str_starts_with(controllers, "name=") ? controllers + 5
						       : controllers;
	tree = open_hierarchy(setup, controllers, name, rest, attributes, err);
	if (tree < 0)
		return err->code == ENOENT ? 0 : -1; /* not mounted in the host either */
	if (mkdirat(tmpfs, name, 0755) < 0)
		return err_set(err, errno, "make the directory %s", name);
	onto = openat(tmpfs, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (onto < 0 || mount_attach(tree, onto, name, err) < 0)
		return onto < 0 ? err_set(err, errno, "open the directory %s", name) : -1;
	if (!strchr(name, ','))
		return 0;
	for (rest = controllers = xstrdup(name); (alias = strsep(&rest, ","));)
		if (symlinkat(name, tmpfs, alias) < 0 && errno != EEXIST)
			return err_set(err, errno, "link %s", alias);
	free(controllers);
	return 0;
}

static int mount_v1(struct setup *setup, struct mount_options *options, int onto, char *lines,
		    struct err *err)
{
	static const char *const data[] = { "mode=755" };
	uint64_t base = options->set & ~(uint64_t)MOUNT_ATTR_RDONLY;
	_cleanup_fd_ int tmpfs = mount_filesystem("tmpfs", "tmpfs", data, 1, base, err);
	char *rest = lines, *line;

	if (tmpfs < 0 || mount_attach(tmpfs, onto, "tmpfs", err) < 0)
		return -1;
	while ((line = strsep(&rest, "\n")))
		if (*line && add_hierarchy(setup, line, tmpfs, options->set, err) < 0)
			return -1;
	if (options->set & MOUNT_ATTR_RDONLY)
		options->sealed = fd_steal(&tmpfs);
	return 0;
}

int cgroupfs_mount(struct setup *setup, const struct oci_mount *mount,
		   struct mount_options *options, int onto, struct err *err)
{
	enum cgroup_layout layout = cgroup_layout();
	_cleanup_free_ char *lines = NULL;

	if (layout == CGROUP_NONE)
		return err_set(err, 0, "there are no control groups on this machine");
	if (layout == CGROUP_V2) {
		if (setup_unshare_cgroup(setup, err) < 0)
			return -1;
		return mount_v2(setup, options, onto, err);
	}
	if (str_eq(mount->type, "cgroup2"))
		return err_set(err, 0, "cgroup v2 is not what this machine uses");
	lines = file_read(setup->proc, "self/cgroup", 65536, NULL, err);
	if (!lines || setup_unshare_cgroup(setup, err) < 0)
		return -1;
	return mount_v1(setup, options, onto, lines, err);
}

static bool shows_writable(const struct setup *setup)
{
	for (size_t i = 0; i < setup->config->n_mounts; i++)
		if (setup->config->mounts[i].type &&
		    str_starts_with(setup->config->mounts[i].type, "cgroup") &&
		    !(setup->mounts[i].set & MOUNT_ATTR_RDONLY))
			return true;
	return false;
}

/* Whom the process's user is outside; false where the config does not tell. */
static bool find_owner(const struct setup *setup, uid_t *owner)
{
	uint32_t user = setup->process->user->uid;

	*owner = user;
	if (!((setup->namespaces.create | setup->namespaces.join) & CLONE_NEWUSER))
		return true;
	for (size_t i = 0; i < setup->linux_->n_uid_mappings; i++) {
		const struct oci_id_mapping *map = &setup->linux_->uid_mappings[i];

		if (user >= map->container_id && user - map->container_id < map->size) {
			*owner = map->host_id + (user - map->container_id);
			return true;
		}
	}
	return false;
}

int cgroupfs_delegate(const struct setup *setup, struct err *err)
{
	const char *path = setup->params->cgroup_path;
	uid_t owner;

	if (!path || !(setup->namespaces.create & CLONE_NEWCGROUP) || !shows_writable(setup) ||
	    !find_owner(setup, &owner))
		return 0;
	return cgroup_delegate(path, owner, setup->params->hardening ? CGROUPS_MAX : 0, err);
}
