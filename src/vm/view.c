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
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct place {
	int fd;	     /* a detached mount; -1: it could not be made */
	bool guests; /* stands for a file system of the guest */
};

/* It takes the mount points of what lies in it, and then nothing more. */
static int open_guests(struct err *err)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(context, FSCONFIG_SET_STRING, "size", "64k", 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(err, errno, "make an empty tmpfs");
	fd = fsmount(context, FSMOUNT_CLOEXEC,
		     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? err_set(err, errno, "make a mount of an empty tmpfs") : fd;
}

static void open_place(struct place *place, const struct oci_config *config,
		       const struct oci_mount *mount, const char *bundle)
{
	struct bind bind;
	struct err err;

	place->guests = !bind_of_mount(mount, &bind);
	place->fd = place->guests ? open_guests(&err)
		    : bind.source ? bind_open(bundle, &bind, &err)
				  : -1;
	if (!place->guests && place->fd >= 0 &&
	    owners_map(place->fd, config, mount, bind.source, &err) < 0)
		fd_replace(&place->fd, -1);
	if (place->fd < 0 && (place->guests || bind.source))
		log_debug("view: %s", err.text);
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
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, errno, "make a mount namespace");
	for (size_t i = 0; i < config->n_mounts; i++)
		open_place(&places[i], config, &config->mounts[i], container->bundle);
	r = jail_change_root(root, err);
	for (size_t i = 0; r == 0 && i < config->n_mounts; i++)
		put(&places[i], root, &config->mounts[i]);
	for (size_t i = 0; i < config->n_mounts; i++) {
		seal(&places[i]);
		fd_replace(&places[i].fd, -1);
	}
	return r;
}
