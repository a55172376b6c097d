/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Device files: those that every container has (runtime-spec, config-linux.md "Default Devices"),
 * those of linux.devices, and the links in /dev.
 */
#include "sandbox/setup.h"

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UEVENT_MAX 4096

static const struct {
	const char *name;
	unsigned int major, minor;
} defaults[] = {
	{ "null", 1, 3 },   { "zero", 1, 5 },	 { "full", 1, 7 },
	{ "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct {
	const char *name, *target;
} links[] = {
	{ "fd", "/proc/self/fd" },	 { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
	{ "ptmx", "pts/ptmx" },
};

/* Whether an entry is there and is the very device; if it is something else it is removed. */
static bool is_there(int dir, const char *name, mode_t type, dev_t device)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if ((st.st_mode & S_IFMT) == type && (type == S_IFIFO || st.st_rdev == device))
		return true;
	unlinkat(dir, name, 0);
	return false;
}

/* A mount of a device onto its name, which becomes a file to be mounted onto. */
static int bind_onto(int dir, const char *name, const char *path, int tree, struct err *err)
{
	_cleanup_fd_ int onto = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		unlinkat(dir, name, 0); /* the image's: it would lead to another file */
	onto = openat(dir, name, O_CREAT | O_NOFOLLOW | O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0644);
	if (onto < 0)
		return path_not_made("file", path, err);
	return mount_attach(tree, onto, path, err);
}

/* Where devices cannot be made, in a user namespace, the host's own is bound: the one at source. */
static int bind_host(int dir, const char *name, const char *path, const char *source, mode_t type,
		     dev_t device, struct err *err)
{
	_cleanup_fd_ int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct stat st;

	if (tree < 0 || fstat(tree, &st) < 0) {
		err_set(err, errno, "open the host's %s", source);
		return err_hint(err, "where no device can be made, as in a user namespace, it is "
				     "the one of that very path on the host, at level vm in the "
				     "guest: give it a path below /dev");
	}
	if ((st.st_mode & S_IFMT) != type || st.st_rdev != device)
		return err_set(err, ENODEV, "use the host's %s, which is not device %u:%u", source,
			       major(device), minor(device));
	return bind_onto(dir, name, path, tree, err);
}

/* The path of a character device on the host, as its kernel names it there (sysfs); NULL: none. */
static char *path_of_number(dev_t device)
{
	_cleanup_free_ char *file =
		xasprintf("/sys/dev/char/%u:%u/uevent", major(device), minor(device));
	_cleanup_free_ char *text = file_read(AT_FDCWD, file, UEVENT_MAX, NULL, NULL);
	char *name = text ? strstr(text, "\nDEVNAME=") : NULL;

	if (!name)
		return NULL;
	name += strlen("\nDEVNAME=");
	name[strcspn(name, "\n")] = '\0';
	return path_is_clean(name) ? xasprintf("/dev/%s", name) : NULL;
}

/*
 * In a user namespace: the host's node of the same path, or else of the same number. Not of a disk,
 * whose node lets nobody in but those that the host's lets in.
 */
static int bind_any(int dir, const char *name, const char *path, mode_t type, dev_t device,
		    struct err *err)
{
	_cleanup_free_ char *other = NULL;
	struct err unheard;

	if (bind_host(dir, name, path, path, type, device, err) == 0)
		return 0;
	if (type == S_IFCHR && (err->code == ENOENT || err->code == ENODEV))
		other = path_of_number(device);
	return other ? bind_host(dir, name, path, other, type, device, &unheard) : -1;
}

/* A mount can be cloned only where it is in a namespace: it covers a directory meanwhile. */
static int clone_from(int tmpfs, int dir, const char *name)
{
	_cleanup_fd_ int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), tree = -1;

	if (before < 0 ||
	    move_mount(tmpfs, "", dir, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return -1;
	tree = open_tree(tmpfs, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fchdir(tmpfs) < 0 || umount2(".", MNT_DETACH) < 0 || fchdir(before) < 0)
		return -1;
	return fd_steal(&tree);
}

/*
 * A file system that has no devices, as a guest's of the host's files, gets one of a tmpfs. Where
 * none can be made at all, err stays as it is.
 */
static int bind_own(int dir, const char *name, const char *path, mode_t mode, dev_t device,
		    struct err *err)
{
	static const char node[] = "device";
	_cleanup_fd_ int tmpfs = -1, tree = -1;
	struct err none;

	tmpfs = mount_filesystem("tmpfs", "tmpfs", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
				 &none);
	if (tmpfs < 0)
		return -1;
	if (mknodat(tmpfs, node, mode, device) < 0)
		return errno == EPERM ? -1 : err_set(err, errno, "make the device %s", path);
	tree = clone_from(tmpfs, dir, node);
	if (tree < 0)
		return err_set(err, errno, "make the device %s in a tmpfs", path);
	return bind_onto(dir, name, path, tree, err);
}

static int make(struct setup *setup, int dir, const char *name, const char *path, mode_t mode,
		dev_t device, struct err *err)
{
	if (setup->namespaces.create & CLONE_NEWUSER)
		return bind_any(dir, name, path, mode & S_IFMT, device, err);
	if (mknodat(dir, name, mode, device) == 0)
		return 0;
	if (errno == EEXIST) {
		if (is_there(dir, name, mode & S_IFMT, device))
			return 0;
		if (mknodat(dir, name, mode, device) == 0)
			return 0;
	}
	if (errno != EPERM)
		return err_set(err, errno, "make the device %s", path);
	if (bind_host(dir, name, path, path, mode & S_IFMT, device, err) == 0)
		return 0;
	return bind_own(dir, name, path, mode, device, err);
}

static int type_of(const struct oci_device *device, mode_t *type, struct err *err)
{
	switch (device->type[0]) {
	case 'c':
	case 'u':
		*type = S_IFCHR;
		return 0;
	case 'b':
		*type = S_IFBLK;
		return 0;
	case 'p':
		*type = S_IFIFO;
		return 0;
	}
	return err_set(err, 0, "device %s: unknown type '%s'", device->path, device->type);
}

static int make_listed(struct setup *setup, const struct oci_device *device, struct err *err)
{
	_cleanup_free_ char *parent = xstrdup(device->path);
	char *slash = strrchr(parent, '/');
	mode_t type = 0, mode = device->has_file_mode ? device->file_mode & 07777 : 0666;
	_cleanup_fd_ int dir = -1;
	const char *name;
	dev_t number;

	if (type_of(device, &type, err) < 0)
		return -1;
	number = type == S_IFIFO
			 ? 0
			 : makedev((unsigned int)device->major, (unsigned int)device->minor);
	name = slash ? device->path + (slash - parent) + 1 : device->path;
	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, 0, "device %s: not the name of a file", device->path);
	if (slash)
		*slash = '\0';
	dir = path_make_in_root(setup->rootfs, slash && *parent ? parent : "/", true, 0755, err);
	if (dir < 0 || make(setup, dir, name, device->path, type | mode, number, err) < 0)
		return -1;
	if (setup->namespaces.create & CLONE_NEWUSER)
		return 0; /* the host's node, with the host's owner */
	if ((device->uid || device->gid) &&
	    fchownat(dir, name, device->uid, device->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "set the owner of %s", device->path);
	return 0;
}

static bool is_listed(const struct setup *setup, const char *name)
{
	for (size_t i = 0; i < setup->linux_->n_devices; i++) {
		const char *path = setup->linux_->devices[i].path;

		if (str_starts_with(path, "/dev/") && str_eq(path + 5, name))
			return true;
	}
	return false;
}

/* With the host's /dev bound, or one that was prepared, nothing may be written there. */
static bool is_prepared(const struct setup *setup)
{
	for (size_t i = 0; i < setup->config->n_mounts; i++) {
		const char *path = setup->config->mounts[i].destination;

		if (setup->mounts[i].bind && (str_eq(path, "/dev") || str_eq(path, "/dev/")))
			return true;
	}
	return false;
}

static int make_defaults(struct setup *setup, int dev, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		char path[32];

		if (is_listed(setup, defaults[i].name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", defaults[i].name);
		if (make(setup, dev, defaults[i].name, path, S_IFCHR | 0666,
			 makedev(defaults[i].major, defaults[i].minor), err) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		if (symlinkat(links[i].target, dev, links[i].name) == 0 || errno == EEXIST)
			continue;
		return err_set(err, errno, "make the link /dev/%s", links[i].name);
	}
	return 0;
}

int devices_make(struct setup *setup, struct err *err)
{
	_cleanup_fd_ int dev = -1;

	if (is_prepared(setup))
		return 0;
	dev = path_open_in_root(setup->rootfs, "dev", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS,
				err);
	if (dev < 0 && err->code == ENOENT)
		dev = path_make_in_root(setup->rootfs, "dev", true, 0755, err);
	if (dev < 0 || make_defaults(setup, dev, err) < 0)
		return -1;
	for (size_t i = 0; i < setup->linux_->n_devices; i++)
		if (make_listed(setup, &setup->linux_->devices[i], err) < 0)
			return -1;
	return 0;
}
