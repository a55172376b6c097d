/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mounts are made detached while the host's paths are known, then the root is changed, then each is
 * put in its place, in the order of config.json.
 */
#include "vm/view.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "engine/engine.h"
#include "oci/config.h"
#include "vm/jail.h"
#include "vm/owners.h"
#include "vm/trees.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct place {
	int fd;	     /* a detached mount; -1: it could not be made */
	bool guests; /* stands for a file system of the guest */
};

static void open_bind(struct place *place, const struct oci_config *config,
		      const struct oci_mount *mount, const char *bundle)
{
	struct bind bind;
	struct err err;

	place->guests = !bind_of_mount(mount, &bind);
	place->fd = place->guests || !bind.source ? -1 : bind_open(bundle, &bind, &err);
	if (place->fd >= 0 && owners_map(place->fd, config, mount, bind.source, &err) < 0)
		fd_replace(&place->fd, -1);
	if (place->fd < 0 && !place->guests && bind.source)
		log_debug("view: %s", err.text);
}

/* An empty tmpfs over the root, as only what is mounted can be cloned (until Linux 6.15). */
static int cover_root(struct err *err)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
	_cleanup_fd_ int fd = -1;

	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "size", "64k", 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(err, errno, "make an empty tmpfs");
	fd = fsmount(context, FSMOUNT_CLOEXEC,
		     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0 || move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, errno, "mount an empty tmpfs");
	return fd_steal(&fd);
}

static int open_directory(int top, size_t number)
{
	char name[24];

	snprintf(name, sizeof(name), "%zu", number);
	return mkdirat(top, name, 0555) < 0
		       ? -1
		       : open_tree(top, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/*
 * What stands for the guest's file systems takes the mount points of what lies in it, and then
 * nothing more: an empty directory each, all of one tmpfs. Binds are opened before it is there, as
 * one of them may be of the root.
 */
static int open_guests(struct place *places, size_t count, struct err *err)
{
	_cleanup_fd_ int top = cover_root(err);
	mode_t mask;

	if (top < 0)
		return -1;
	mask = umask(0);
	for (size_t i = 0; i < count; i++) {
		if (!places[i].guests)
			continue;
		places[i].fd = open_directory(top, i);
		if (places[i].fd < 0)
			log_debug("view: make a mount of an empty directory: %m");
	}
	umask(mask);
	if (umount2("/", MNT_DETACH) < 0) /* the topmost that is mounted there */
		return err_set(err, errno, "take an empty tmpfs off the root");
	return 0;
}

/* What the guest cannot do either, it says itself; anything else would be missing here only. */
static void put(const struct place *place, int root, const struct oci_mount *mount)
{
	_cleanup_fd_ int onto = -1;
	struct stat st;
	struct err err;

	if (place->fd < 0)
		return;
	if (fstat(place->fd, &st) < 0)
		err_set(&err, errno, "stat a mount");
	else
		onto = path_make_in_root(root, mount->destination, S_ISDIR(st.st_mode), 0755, &err);
	if (onto >= 0 && move_mount(place->fd, "", onto, "",
				    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
		err_set(&err, errno, "move it there");
		fd_replace(&onto, -1);
	}
	if (onto < 0)
		log_debug("view: mount %s: %s", mount->destination, err.text);
}

static void seal(const struct place *place)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (place->fd >= 0 && place->guests &&
	    mount_setattr(place->fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		log_debug("view: make a tmpfs read-only: %m");
}

int view_enter(const struct container *container, struct err *err)
{
	const struct oci_config *config = container->config;
	const struct bind bind = { .source = config->root->path,
				   .recursive = true,
				   .read_only = config->root->readonly };
	_cleanup_fd_ int root = bind_open(container->bundle, &bind, err);
	_cleanup_free_ struct place *places = xcalloc(config->n_mounts + 1, sizeof(*places));
	int r;

	if (root < 0)
		return err_wrap(err, "root.path");
	if (jail_leave_mounts(err) < 0)
		return -1;
	for (size_t i = 0; i < config->n_mounts; i++)
		open_bind(&places[i], config, &config->mounts[i], container->bundle);
	if (open_guests(places, config->n_mounts, err) < 0)
		return -1;
	r = jail_change_root(root, err);
	for (size_t i = 0; r == 0 && i < config->n_mounts; i++)
		put(&places[i], root, &config->mounts[i]);
	for (size_t i = 0; i < config->n_mounts; i++) {
		seal(&places[i]);
		fd_replace(&places[i].fd, -1);
	}
	return r;
}
