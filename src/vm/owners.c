/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Id-mapped mounts for fsd. */
#include "vm/owners.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>

struct mappings {
	const struct oci_id_mapping *uids, *gids;
	size_t n_uids, n_gids;
};

static int write_map(pid_t pid, const char *file, const struct oci_id_mapping *maps, size_t count,
		     struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/%s", (int)pid, file);
	_cleanup_free_ char *text = xstrdup("");

	for (size_t i = 0; i < count; i++) {
		char *longer = xasprintf("%s%u %u %u\n", text, maps[i].container_id,
					 maps[i].host_id, maps[i].size);

		free(text);
		text = longer;
	}
	return file_write(AT_FDCWD, path, text, err);
}

/* A process has to live in the namespace while its maps are written: until we close our end. */
static _Noreturn void hold(int ours, int its)
{
	char byte;

	close(ours);
	_exit(fd_read_full(its, &byte, 1) < 0);
}

/* Returns a user namespace with these maps, or -1 with err set. */
static int make_namespace(const struct mappings *maps, struct err *err)
{
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND,
				   .exit_signal = SIGCHLD };
	_cleanup_fd_ int ours = -1, its = -1;
	int namespace = -1, pair[2];
	char path[64];
	pid_t holder;

	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	ours = pair[0];
	its = pair[1];
	holder = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (holder == 0)
		hold(ours, its);
	if (holder < 0)
		return err_set(err, errno, "make a user namespace");
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)holder);
	if (write_map(holder, "uid_map", maps->uids, maps->n_uids, err) == 0 &&
	    write_map(holder, "gid_map", maps->gids, maps->n_gids, err) == 0) {
		namespace = open(path, O_RDONLY | O_CLOEXEC);
		if (namespace < 0)
			err_set(err, errno, "open the user namespace");
	}
	fd_replace(&ours, -1);
	proc_wait(holder);
	return namespace;
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
