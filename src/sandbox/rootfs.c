/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The root file system: attached over "/" of the new mount namespace, so that nothing depends on
 * the path it has in the host; made the root by pivot_root(2); paths masked and made read-only.
 */
#include "sandbox/setup.h"

#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static const struct {
	const char *name;
	uint64_t flag;
	unsigned int recursive;
} propagations[] = {
	{ "private", MS_PRIVATE, 0 },	    { "rprivate", MS_PRIVATE, AT_RECURSIVE },
	{ "slave", MS_SLAVE, 0 },	    { "rslave", MS_SLAVE, AT_RECURSIVE },
	{ "shared", MS_SHARED, 0 },	    { "rshared", MS_SHARED, AT_RECURSIVE },
	{ "unbindable", MS_UNBINDABLE, 0 }, { "runbindable", MS_UNBINDABLE, AT_RECURSIVE },
};

static int set_propagation(int fd, const char *path, unsigned int flags, uint64_t value,
			   struct err *err)
{
	struct mount_attr attr = { .propagation = value };

	if (mount_setattr(fd, path, flags, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "set the propagation of %s",
			       *path ? path : "the root file system");
	return 0;
}

static int find_propagation(const char *name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(propagations); i++)
		if (str_eq(propagations[i].name, name))
			return (int)i;
	return err_set(err, 0, "linux.rootfsPropagation: unknown value '%s'", name);
}

static bool is_shared(const struct setup *setup)
{
	const char *name = setup->linux_->rootfs_propagation;

	return name && str_ends_with(name, "shared");
}

char *setup_path(const struct setup *setup, const char *path)
{
	return *path == '/' ? xstrdup(path) : xasprintf("%s/%s", setup->params->bundle, path);
}

int rootfs_open(const struct setup *setup, struct err *err)
{
	_cleanup_free_ char *path = setup_path(setup, setup->config->root->path);
	int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (tree < 0)
		return err_set(err, errno, "open the root file system %s", path);
	return tree;
}

/*
 * An image whose /proc is a symbolic link would have masks, and what reads /proc, go where the
 * image wants. Mounts refuse links on their way as well; here it gets a plain message.
 */
static int check_tops(int root, struct err *err)
{
	static const char *const tops[] = { "proc", "sys", "dev" };

	for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
		char target[1];

		if (readlinkat(root, tops[i], target, sizeof(target)) >= 0)
			return err_set(err, 0,
				       "/%s in the root file system is a symbolic link: "
				       "refusing to run it",
				       tops[i]);
	}
	return 0;
}

int rootfs_attach(struct setup *setup, struct err *err)
{
	struct stat st;

	/*
	 * What the container mounts must not reach the host. With "shared" the binds stay peers
	 * of the host's mounts, as asked; "/" itself and the root file system do not.
	 */
	if (is_shared(setup)) {
		if (set_propagation(AT_FDCWD, "/", 0, MS_PRIVATE, err) < 0)
			return -1;
	} else if (set_propagation(AT_FDCWD, "/", AT_RECURSIVE, MS_SLAVE, err) < 0) {
		return -1;
	}
	if (setup->rootfs < 0)
		setup->rootfs = rootfs_open(setup, err);
	if (setup->rootfs < 0)
		return -1;
	if (fstat(setup->rootfs, &st) < 0)
		return err_set(err, errno, "stat the root file system");
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "open the root file system %s",
			       setup->config->root->path);
	setup->root_device = st.st_dev;
	setup->root_inode = st.st_ino;
	/* One that was opened by the parent still is a peer of the host's as well. */
	if (set_propagation(setup->rootfs, "", AT_EMPTY_PATH | AT_RECURSIVE,
			    is_shared(setup) ? MS_PRIVATE : MS_SLAVE, err) < 0)
		return -1;
	if (move_mount(setup->rootfs, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, errno, "attach the root file system");
	return check_tops(setup->rootfs, err);
}

/* One empty read-only directory serves all masked directories. */
static int clone_empty(struct setup *setup, struct err *err)
{
	static const char *const data[] = { "nr_inodes=1", "mode=555" };

	if (setup->empty >= 0)
		return mount_clone(setup->empty, false, "the empty directory", err);
	return mount_filesystem(
		"tmpfs", "tmpfs", data, ARRAY_LEN(data),
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);
}

static int mask(struct setup *setup, const char *path, struct err *err)
{
	_cleanup_fd_ int fd = -1, tree = -1;
	struct stat st;

	fd = path_open_in_root(setup->rootfs, path, O_PATH, 0, 0, err);
	if (fd < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "stat %s", path);
	tree = S_ISDIR(st.st_mode) ? clone_empty(setup, err)
				   : mount_clone(setup->null, false, "/dev/null", err);
	if (tree < 0 || mount_attach(tree, fd, path, err) < 0)
		return -1;
	if (S_ISDIR(st.st_mode) && setup->empty < 0)
		setup->empty = fd_steal(&tree);
	return 0;
}

static int make_readonly(struct setup *setup, const char *path, struct err *err)
{
	struct mount_attr readonly = { .attr_set = MOUNT_ATTR_RDONLY };
	_cleanup_fd_ int fd = -1, tree = -1;

	fd = path_open_in_root(setup->rootfs, path, O_PATH, 0, 0, err);
	if (fd < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	tree = mount_clone(fd, true, path, err);
	if (tree < 0)
		return -1;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &readonly, sizeof(readonly)) < 0)
		return err_set(err, errno, "make %s read-only", path);
	return mount_attach(tree, fd, path, err);
}

int rootfs_hide(struct setup *setup, struct err *err)
{
	for (size_t i = 0; i < setup->linux_->n_readonly_paths; i++)
		if (make_readonly(setup, setup->linux_->readonly_paths[i], err) < 0)
			return err_wrap(err, "make %s read-only", setup->linux_->readonly_paths[i]);
	for (size_t i = 0; i < setup->linux_->n_masked_paths; i++)
		if (mask(setup, setup->linux_->masked_paths[i], err) < 0)
			return err_wrap(err, "mask %s", setup->linux_->masked_paths[i]);
	return 0;
}

/* Leaves the host's mounts behind: after this no path leads to them. */
static int pivot(struct setup *setup, struct err *err)
{
	_cleanup_fd_ int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (old < 0 || fchdir(setup->rootfs) < 0)
		return err_set(err, errno, "enter the root file system");
	if (syscall(SYS_pivot_root, ".", ".") < 0) {
		err_set(err, errno, "make it the root file system");
		if (err->code == EINVAL)
			err_hint(err, "the caller's own root may be an initramfs: see --no-pivot");
		return -1;
	}
	if (fchdir(old) < 0)
		return err_set(err, errno, "enter the old root file system");
	/* Peers of the host's mounts must not be unmounted in the host as well. */
	if (is_shared(setup) &&
	    set_propagation(old, "", AT_EMPTY_PATH | AT_RECURSIVE, MS_PRIVATE, err) < 0)
		return -1;
	if (umount2(".", MNT_DETACH) < 0)
		return err_set(err, errno, "unmount the old root file system");
	return 0;
}

int rootfs_enter(struct setup *setup, struct err *err)
{
	struct mount_attr readonly = { .attr_set = MOUNT_ATTR_RDONLY };
	const char *name = setup->linux_->rootfs_propagation;
	int i = name ? find_propagation(name, err) : 0;

	if (i < 0)
		return -1;
	if (setup->config->root->readonly &&
	    mount_setattr(setup->rootfs, "", AT_EMPTY_PATH, &readonly, sizeof(readonly)) < 0)
		return err_set(err, errno, "make the root file system read-only");
	if (setup->params->no_pivot) {
		if (fchdir(setup->rootfs) < 0 || chroot(".") < 0)
			return err_set(err, errno, "enter the root file system");
	} else if (pivot(setup, err) < 0) {
		return -1;
	}
	if (chdir("/") < 0)
		return err_set(err, errno, "enter the root file system");
	if (!name)
		return 0;
	return set_propagation(setup->rootfs, "", AT_EMPTY_PATH | propagations[i].recursive,
			       propagations[i].flag, err);
}
