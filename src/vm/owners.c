/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Id-mapped mounts for fsd. */
#include "vm/owners.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/userns.h"
#include "oci/config.h"

#include <fcntl.h>
#include <sys/mount.h>

struct mappings {
	const struct oci_id_mapping *uids, *gids;
	size_t n_uids, n_gids;
};

static int write_map(int proc, pid_t pid, const char *file, const struct oci_id_mapping *maps,
		     size_t count, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%d/%s", (int)pid, file);
	_cleanup_free_ char *text = xstrdup("");

	for (size_t i = 0; i < count; i++) {
		char *longer = xasprintf("%s%u %u %u\n", text, maps[i].container_id,
					 maps[i].host_id, maps[i].size);

		free(text);
		text = longer;
	}
	return file_write(proc, path, text, err);
}

static int write_maps(const void *data, int proc, pid_t pid, struct err *err)
{
	const struct mappings *maps = data;

	if (write_map(proc, pid, "uid_map", maps->uids, maps->n_uids, err) < 0)
		return -1;
	return write_map(proc, pid, "gid_map", maps->gids, maps->n_gids, err);
}

/* Returns a user namespace with these maps, or -1 with err set. */
static int make_namespace(const struct mappings *maps, struct err *err)
{
	_cleanup_fd_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0)
		return err_set(err, errno, "open /proc");
	return userns_make(proc, write_maps, maps, err);
}

static bool wants(const struct oci_mount *mount, bool *recursive)
{
	bool asked = mount->n_uid_mappings || mount->n_gid_mappings;

	*recursive = false;
	for (size_t i = 0; i < mount->n_options; i++) {
		asked = asked || str_eq(mount->options[i], "idmap");
		*recursive = *recursive || str_eq(mount->options[i], "ridmap");
	}
	return asked || *recursive;
}

static void choose(const struct oci_config *config, const struct oci_mount *mount,
		   struct mappings *maps)
{
	const struct oci_linux *linux_ = config->linux_;

	if (mount->n_uid_mappings || mount->n_gid_mappings)
		*maps = (struct mappings){ mount->uid_mappings, mount->gid_mappings,
					   mount->n_uid_mappings, mount->n_gid_mappings };
	else if (linux_)
		*maps = (struct mappings){ linux_->uid_mappings, linux_->gid_mappings,
					   linux_->n_uid_mappings, linux_->n_gid_mappings };
}

int owners_map(int tree, const struct oci_config *config, const struct oci_mount *mount,
	       const char *path, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	struct mappings maps = { 0 };
	_cleanup_fd_ int namespace = -1;
	bool recursive;

	if (!wants(mount, &recursive))
		return 0;
	choose(config, mount, &maps);
	if (!maps.n_uids || !maps.n_gids)
		return err_set(err, 0, "map the mount's ids: it needs uidMappings and gidMappings");
	namespace = make_namespace(&maps, err);
	if (namespace < 0)
		return err_wrap(err, "map the mount's ids");
	attr.userns_fd = (uint64_t) namespace;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr,
			  sizeof(attr)) == 0)
		return 0;
	err_set(err, errno, "map the owners of files in %s", path);
	return err->code == EINVAL ? err_hint(err, "a file system in it cannot do that on this "
						   "kernel: ext4, xfs, btrfs and, since Linux "
						   "6.3, tmpfs can")
				   : -1;
}
