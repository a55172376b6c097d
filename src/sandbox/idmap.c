/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Id-mapped mounts (mount_setattr(2), MOUNT_ATTR_IDMAP). */
#include "sandbox/idmap.h"
#include "sandbox/setup.h"
#include "sandbox/harden.h"

#include "sandbox/namespaces.h"

#include "base/fd.h"
#include "base/userns.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>

static uint32_t host_root(const struct oci_id_mapping *maps, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (maps[i].container_id == 0)
			return maps[i].host_id;
	return UINT32_MAX;
}

static int map_ids(const void *config, int proc, pid_t pid, struct err *err)
{
	return namespaces_map_ids(config, proc, pid, err);
}

int idmap_open(struct idmap *map, const struct oci_linux *config, int proc, struct err *err)
{
	*map = (struct idmap){
		.userns = userns_make(proc, map_ids, config, err),
		.uid = host_root(config->uid_mappings, config->n_uid_mappings),
		.gid = host_root(config->gid_mappings, config->n_gid_mappings),
	};
	return map->userns < 0 ? -1 : 0;
}

int idmap_tree(const struct idmap *map, int *tree, const char *path, bool recursive,
	       struct err *err)
{
	unsigned int flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0u);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (uint64_t)map->userns,
	};
	struct statfs fs = { 0 };

	if (fstatfs(*tree, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC) {
		int made = idmap_overlay(map, path, err);

		if (made < 0) {
			err_wrap(err, "map the owners of files in the overlay %s", path);
			if (err->code == ENOENT) /* a container's root file system, or a lab's */
				err_hint(err, "its layers are not where they were when it was "
					      "mounted: put the bundle on another file system");
			return -1;
		}
		fd_replace(tree, made);
		return 0;
	}
	if (mount_setattr(*tree, "", flags, &attr, sizeof(attr)) == 0)
		return 0;
	err_set(err, errno, "map the owners of files in %s", path);
	if (err->code == EINVAL)
		err_hint(err,
			 "a file system in it (type 0x%lx at its top) cannot do that on this "
			 "kernel: ext4, xfs, btrfs and, since Linux 6.3, tmpfs can",
			 (unsigned long)fs.f_type);
	return -1;
}

/* Neither devices nor set-id bits of files count in what the container may write to. */
static int restrict_tree(int tree, const char *path, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID };

	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "set the options of %s", path);
	return 0;
}

static int map_all(struct setup *setup, const struct idmap *map, struct err *err)
{
	const struct oci_config *config = setup->config;
	_cleanup_free_ char *root = setup_path(setup, config->root->path);

	if (map && idmap_tree(map, &setup->rootfs, root, true, err) < 0)
		return -1;
	if (restrict_tree(setup->rootfs, root, err) < 0)
		return -1;
	for (size_t i = 0; i < config->n_mounts; i++) {
		_cleanup_free_ char *source = NULL;

		if (setup->mounts[i].source < 0)
			continue;
		source = setup_path(setup, config->mounts[i].source);
		if ((map && !setup->mounts[i].idmap && /* mapped already */
		     idmap_tree(map, &setup->mounts[i].source, source, true, err) < 0) ||
		    restrict_tree(setup->mounts[i].source, source, err) < 0)
			return err_wrap(err, "mount %s", config->mounts[i].destination);
	}
	return 0;
}

int setup_map_files(struct setup *setup, struct err *err)
{
	struct idmap map;
	int r;

	if (!setup->params->hardening->id_base)
		return map_all(setup, NULL, err);
	if (idmap_open(&map, setup->linux_, setup->proc, err) < 0)
		return -1;
	r = map_all(setup, &map, err);
	close(map.userns);
	return r;
}
