/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mounts of config.json. Each one is made detached (fsopen, open_tree), its destination is
 * resolved once, inside the root file system, and the mount is put onto that descriptor: what
 * happens to the path in between, or later, does not matter.
 */
#include "sandbox/idmap.h"
#include "sandbox/setup.h"

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

int mount_attach(int tree, int onto, const char *what, struct err *err)
{
	if (move_mount(tree, "", onto, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_set(err, errno, "mount %s", what);
	return 0;
}

int mount_clone(int fd, bool recursive, const char *what, struct err *err)
{
	unsigned int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
			     (recursive ? AT_RECURSIVE : 0u);
	int tree = open_tree(fd, "", flags);

	if (tree < 0)
		return err_set(err, errno, "clone the mount of %s", what);
	return tree;
}

/* The file system's own words about what it did not like are the best there are. */
static int filesystem_error(int fs, const char *type, const char *option, int code, struct err *err)
{
	char message[256], safe[512];
	ssize_t n = read(fs, message, sizeof(message));
	const char *on = option ? option : "";

	/* A message starts with its level: "e ", "w ", "i ". */
	if (n <= 2)
		return err_set(err, code, "make a file system of type %s%s%s", type,
			       option ? " with option " : "", on);
	while (n > 2 && message[n - 1] == '\n')
		n--;
	str_escape(message + 2, (size_t)n - 2, safe, sizeof(safe));
	return err_set(err, code, "make a file system of type %s%s%s: %s", type,
		       option ? " with option " : "", on, safe);
}

static int set_option(int fs, const char *option)
{
	const char *equals = strchr(option, '=');
	_cleanup_free_ char *key = NULL;

	if (!equals)
		return fsconfig(fs, FSCONFIG_SET_FLAG, option, NULL, 0);
	key = xstrdup(option);
	key[equals - option] = '\0';
	return fsconfig(fs, FSCONFIG_SET_STRING, key, equals + 1, 0);
}

int mount_filesystem(const char *type, const char *source, const char *const *data, size_t n_data,
		     uint64_t attributes, struct err *err)
{
	_cleanup_fd_ int fs = fsopen(type, FSOPEN_CLOEXEC);
	int tree;

	if (fs < 0 && errno == ENODEV)
		return err_set(err, 0, "the kernel has no file system of type %s", type);
	if (fs < 0)
		return err_set(err, errno, "make a file system of type %s", type);
	if (source && fsconfig(fs, FSCONFIG_SET_STRING, "source", source, 0) < 0)
		return filesystem_error(fs, type, source, errno, err);
	for (size_t i = 0; i < n_data; i++)
		if (set_option(fs, data[i]) < 0)
			return filesystem_error(fs, type, data[i], errno, err);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return filesystem_error(fs, type, NULL, errno, err);
	tree = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned int)attributes);
	if (tree < 0)
		return filesystem_error(fs, type, NULL, errno, err);
	return tree;
}

static int open_source(const struct setup *setup, const struct oci_mount *mount,
		       const struct mount_options *options, struct err *err)
{
	unsigned int flags =
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (options->bind_recursive ? AT_RECURSIVE : 0u);
	_cleanup_free_ char *source = setup_path(setup, mount->source);
	int tree = open_tree(AT_FDCWD, source, flags);

	if (tree < 0)
		return err_set(err, errno, "open the source %s", source);
	return tree;
}

/* By the maps of the mount, else by those of the container's user namespace. */
static int map_ids(const struct setup *setup, const struct oci_mount *mount,
		   struct mount_options *o, struct err *err)
{
	bool own = mount->n_uid_mappings || mount->n_gid_mappings;
	const struct oci_linux given = { .uid_mappings = mount->uid_mappings,
					 .n_uid_mappings = mount->n_uid_mappings,
					 .gid_mappings = mount->gid_mappings,
					 .n_gid_mappings = mount->n_gid_mappings };
	const struct oci_linux *config = own ? &given : setup->linux_;
	_cleanup_free_ char *source = setup_path(setup, mount->source);
	struct idmap map;
	int r;

	if (!config->n_uid_mappings || !config->n_gid_mappings)
		return err_set(err, 0, "map the mount's ids: it needs uidMappings and gidMappings");
	if (idmap_open(&map, config, setup->proc, err) < 0)
		return -1;
	r = idmap_tree(&map, &o->source, source, o->idmap_recursive, err);
	close(map.userns);
	return r;
}

static int open_early(const struct setup *setup, const struct oci_mount *mount,
		      struct mount_options *o, struct err *err)
{
	struct mount_attr slave = { .propagation = MS_SLAVE };

	o->source = open_source(setup, mount, o, err);
	if (o->source < 0)
		return -1;
	/* Not a peer of the host's: what is mounted inside must not appear there. */
	if (mount_setattr(o->source, "", AT_EMPTY_PATH | AT_RECURSIVE, &slave, sizeof(slave)) < 0)
		return err_set(err, errno, "leave the host's propagation");
	return o->idmap ? map_ids(setup, mount, o, err) : 0;
}

/*
 * Root in a user namespace may not reach the sources (a 0700 directory on the way), nor clone
 * without the mounts below, nor map ids: the parent does it for it.
 */
int mounts_open_sources(struct setup *setup, bool foreign, struct err *err)
{
	for (size_t i = 0; i < setup->config->n_mounts; i++) {
		struct mount_options *o = &setup->mounts[i];
		const struct oci_mount *mount = &setup->config->mounts[i];

		if (o->bind && !o->remount && (foreign || o->idmap) &&
		    open_early(setup, mount, o, err) < 0)
			return err_wrap(err, "mount %s", mount->destination);
	}
	return 0;
}

static bool is_dir(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What the kernel's own file systems show must be where everybody looks for it. */
static bool is_guarded(const struct oci_mount *mount)
{
	static const char *const tops[] = { "/proc", "/sys", "/dev" };

	if (mount->type && (str_eq(mount->type, "proc") || str_eq(mount->type, "sysfs")))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(tops); i++)
		if (str_eq(mount->destination, tops[i]))
			return true;
	return false;
}

/* Returns an O_PATH descriptor of the destination, which is made where it is missing. */
static int open_destination(const struct setup *setup, const struct oci_mount *mount,
			    bool directory, bool *made, struct err *err)
{
	uint64_t resolve = is_guarded(mount) ? RESOLVE_NO_SYMLINKS : 0;
	_cleanup_fd_ int fd = -1;
	struct stat st;

	*made = false;
	fd = path_open_in_root(setup->rootfs, mount->destination, O_PATH, 0, resolve, err);
	if (fd < 0 && err->code == ELOOP && resolve)
		return err_set(err, 0,
			       "%s in the root file system is, or lies behind, a symbolic "
			       "link: refusing to mount there",
			       mount->destination);
	if (fd < 0 && err->code == ENOENT) {
		*made = true;
		fd = path_make_in_root(setup->rootfs, mount->destination, directory,
				       directory ? 0755 : 0644, err);
	}
	if (fd < 0)
		return -1;
	/* Nothing may cover the root itself: later destinations would still go below it. */
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "stat %s in the root file system", mount->destination);
	if (st.st_dev == setup->root_device && st.st_ino == setup->root_inode)
		return err_set(err, 0, "it would hide the root file system");
	return fd_steal(&fd);
}

static int set_attributes(int tree, const struct mount_options *o, bool with_plain, struct err *err)
{
	struct mount_attr plain = { .attr_set = o->set, .attr_clr = o->clear };
	struct mount_attr recursive = { .attr_set = o->recursive_set,
					.attr_clr = o->recursive_clear };

	if (with_plain && (plain.attr_set || plain.attr_clr) &&
	    mount_setattr(tree, "", AT_EMPTY_PATH, &plain, sizeof(plain)) < 0)
		return err_set(err, errno, "set the mount's options");
	if ((recursive.attr_set || recursive.attr_clr) &&
	    mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &recursive, sizeof(recursive)) <
		    0)
		return err_set(err, errno, "set the options of the mount and those below it");
	return 0;
}

static int set_propagation(int tree, const struct mount_options *o, struct err *err)
{
	struct mount_attr attr = { .propagation = o->propagation };
	unsigned int flags = AT_EMPTY_PATH | (o->propagation_recursive ? AT_RECURSIVE : 0u);

	if (o->propagation && mount_setattr(tree, "", flags, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "set the mount's propagation");
	return 0;
}

static int make_bind(struct setup *setup, const struct oci_mount *mount, struct mount_options *o,
		     struct err *err)
{
	_cleanup_fd_ int tree = fd_steal(&o->source), onto = -1;
	bool made;

	if (tree < 0)
		tree = open_source(setup, mount, o, err);
	if (tree < 0 || set_attributes(tree, o, true, err) < 0)
		return -1;
	onto = open_destination(setup, mount, is_dir(tree), &made, err);
	if (onto < 0)
		return -1;
	if (is_dir(tree) != is_dir(onto))
		return err_set(err, 0, "bind %s, which is %s, onto %s", mount->source,
			       is_dir(tree) ? "a directory" : "no directory",
			       is_dir(onto) ? "a directory" : "what is none");
	if (mount_attach(tree, onto, mount->source, err) < 0)
		return -1;
	return set_propagation(tree, o, err);
}

static bool has_data(const struct mount_options *o, const char *prefix)
{
	for (size_t i = 0; i < o->n_data; i++)
		if (str_starts_with(o->data[i], prefix))
			return true;
	return false;
}

static int copy_up(int tree, int onto, struct err *err)
{
	_cleanup_fd_ int from = openat(onto, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (from < 0)
		return err_set(err, errno, "read the directory to be copied");
	return copy_tree(from, tree, err);
}

/*
 * A tmpfs over a directory that is there takes its mode, as users of images expect; and it
 * becomes read-only, if asked for, only when the mounts and devices below it have been made.
 */
static int make_tmpfs(const struct oci_mount *mount, struct mount_options *o, int onto, bool made,
		      struct err *err)
{
	_cleanup_free_ char *mode = NULL;
	_cleanup_fd_ int tree = -1;
	bool seal = o->set & MOUNT_ATTR_RDONLY;
	struct stat st;

	if (!made && !has_data(o, "mode=") && fstat(onto, &st) == 0) {
		mode = xasprintf("mode=%04o", st.st_mode & 07777u);
		o->data[o->n_data++] = mode; /* the array has room for one more */
	}
	tree = mount_filesystem("tmpfs", mount->source, o->data, o->n_data,
				o->set & ~(uint64_t)MOUNT_ATTR_RDONLY, err);
	if (mode)
		o->n_data--;
	if (tree < 0 || (o->copy_up && copy_up(tree, onto, err) < 0))
		return -1;
	if (mount_attach(tree, onto, mount->destination, err) < 0 ||
	    set_attributes(tree, o, false, err) < 0 || set_propagation(tree, o, err) < 0)
		return -1;
	if (seal)
		o->sealed = fd_steal(&tree);
	return 0;
}

static int make_filesystem(struct setup *setup, const struct oci_mount *mount,
			   struct mount_options *o, struct err *err)
{
	_cleanup_fd_ int tree = -1, onto = -1;
	bool made;

	onto = open_destination(setup, mount, true, &made, err);
	if (onto < 0)
		return -1;
	if (str_eq(mount->type, "tmpfs"))
		return make_tmpfs(mount, o, onto, made, err);
	tree = fd_steal(&o->source); /* foreign.c may have made it */
	if (tree < 0)
		tree = mount_filesystem(mount->type, mount->source, o->data, o->n_data, o->set,
					err);
	if (tree < 0) {
		if (err->code == EPERM && str_eq(mount->type, "sysfs"))
			err_hint(err, "sysfs needs a network namespace of the container's own");
		return -1;
	}
	if (mount_attach(tree, onto, mount->destination, err) < 0 ||
	    set_attributes(tree, o, false, err) < 0)
		return -1;
	return set_propagation(tree, o, err);
}

static int remount(struct setup *setup, const struct oci_mount *mount, struct mount_options *o,
		   struct err *err)
{
	_cleanup_fd_ int fd =
		path_open_in_root(setup->rootfs, mount->destination, O_PATH, 0, 0, err);

	if (fd < 0 || set_attributes(fd, o, true, err) < 0)
		return -1;
	return set_propagation(fd, o, err);
}

static int make_one(struct setup *setup, const struct oci_mount *mount, struct mount_options *o,
		    struct err *err)
{
	if (o->remount)
		return remount(setup, mount, o, err);
	if (o->bind)
		return make_bind(setup, mount, o, err);
	if (str_eq(mount->type, "cgroup") || str_eq(mount->type, "cgroup2")) {
		bool made;
		_cleanup_fd_ int onto = open_destination(setup, mount, true, &made, err);

		return onto < 0 ? -1 : cgroupfs_mount(setup, mount, o, onto, err);
	}
	return make_filesystem(setup, mount, o, err);
}

int mounts_make(struct setup *setup, struct err *err)
{
	for (size_t i = 0; i < setup->config->n_mounts; i++)
		if (make_one(setup, &setup->config->mounts[i], &setup->mounts[i], err) < 0)
			return err_wrap(err, "mount %s", setup->config->mounts[i].destination);
	return 0;
}

int mounts_seal(struct setup *setup, struct err *err)
{
	struct mount_attr readonly = { .attr_set = MOUNT_ATTR_RDONLY };

	for (size_t i = 0; i < setup->config->n_mounts; i++)
		if (setup->mounts[i].sealed >= 0 &&
		    mount_setattr(setup->mounts[i].sealed, "", AT_EMPTY_PATH, &readonly,
				  sizeof(readonly)) < 0)
			return err_set(err, errno, "make %s read-only",
				       setup->config->mounts[i].destination);
	return 0;
}

int mounts_read(struct setup *setup, struct err *err)
{
	size_t count = setup->config->n_mounts;

	setup->mounts = xcalloc(count + 1, sizeof(*setup->mounts));
	for (size_t i = 0; i < count; i++)
		setup->mounts[i].source = setup->mounts[i].sealed = -1;
	for (size_t i = 0; i < count; i++)
		if (mount_options_read(&setup->config->mounts[i], &setup->mounts[i], err) < 0)
			return -1;
	return 0;
}

void mounts_free(struct setup *setup)
{
	for (size_t i = 0; setup->mounts && i < setup->config->n_mounts; i++)
		mount_options_free(&setup->mounts[i]);
	free(setup->mounts);
	setup->mounts = NULL;
}
