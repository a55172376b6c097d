/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Detached mounts (open_tree(2), mount_setattr(2)). noexec concerns only the host: what the guest
 * may execute is the guest kernel's affair.
 */
#include "vm/trees.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "fs/fsd.h"
#include "oci/config.h"
#include "vm/owners.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static int open_detached(const char *path, bool recursive, struct err *err)
{
	unsigned int depth = recursive ? AT_RECURSIVE : 0;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
		.propagation = MS_PRIVATE, /* mounts made later do not follow it into the guest */
	};
	_cleanup_fd_ int fd =
		open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | depth);

	if (fd < 0 && errno == EPERM)
		return err_set(err, errno,
			       "take a detached mount of %s (level vm needs CAP_SYS_ADMIN for it)",
			       path);
	if (fd < 0)
		return err_set(err, errno, "open %s", path);
	if (mount_setattr(fd, "", AT_EMPTY_PATH | depth, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "make a detached mount of %s nodev, nosuid and noexec",
			       path);
	return fd_steal(&fd);
}

static int make_read_only(int fd, bool recursive, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr,
			  sizeof(attr)) < 0)
		return err_set(err, errno, "make a detached mount read-only");
	return 0;
}

int bind_open(const char *bundle, const struct bind *bind, struct err *err)
{
	_cleanup_free_ char *path = *bind->source == '/' ? xstrdup(bind->source)
							 : xasprintf("%s/%s", bundle, bind->source);
	_cleanup_fd_ int fd = open_detached(path, bind->recursive, err);

	if (fd < 0 || (bind->read_only && make_read_only(fd, bind->recursive, err) < 0))
		return -1;
	return fd_steal(&fd);
}

/* The file server would be in it, too, and could be written to through its own files there. */
static int refuse_proc(int fd, const char *source, struct err *err)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return err_set(err, errno, "look at the file system of %s", source);
	if (fs.f_type == PROC_SUPER_MAGIC)
		return err_set(err, EPERM,
			       "share %s with a microVM: what is in it is of the host's processes",
			       source);
	return 0;
}

static int refuse_type(const struct stat *st, const char *source, struct err *err)
{
	err_set(err, 0, "share %s with a microVM: only directories and regular files can be",
		source);
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return err_hint(err, "a device is given by linux.devices (of engines: --device)");
	return -1;
}

/* Opens one source and puts it into the list. */
static int add(struct trees *trees, const char *bundle, const struct bind *bind, uint32_t mount,
	       struct err *err)
{
	struct tree *tree = &trees->tree[trees->count];
	_cleanup_fd_ int fd = bind_open(bundle, bind, err);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "stat %s", bind->source);
	if (!S_ISDIR(st.st_mode) && trees->count == 0)
		return err_set(err, ENOTDIR, "use %s as the root file system", bind->source);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return refuse_type(&st, bind->source, err);
	if (refuse_proc(fd, bind->source, err) < 0)
		return -1;
	*tree = (struct tree){ .file = !S_ISDIR(st.st_mode),
			       .read_only = bind->read_only,
			       .mount = mount,
			       .fd = fd_steal(&fd) };
	trees->count++;
	return 0;
}

/* As mount(8) and the specification tell it by the options. */
bool bind_of_mount(const struct oci_mount *mount, struct bind *bind)
{
	bool is_bind = mount->type && str_eq(mount->type, "bind");

	*bind = (struct bind){ .source = mount->source, .recursive = is_bind };
	for (size_t i = 0; i < mount->n_options; i++) {
		const char *option = mount->options[i];

		if (str_eq(option, "bind") || str_eq(option, "rbind")) {
			is_bind = true;
			bind->recursive = str_eq(option, "rbind");
		} else if (str_eq(option, "ro") || str_eq(option, "rro")) {
			bind->read_only = true; /* with what is mounted below, in any case */
		} else if (str_eq(option, "rw") || str_eq(option, "rrw")) {
			bind->read_only = false;
		}
	}
	return is_bind;
}

static int add_mount(struct trees *trees, const struct oci_config *config, size_t index,
		     const char *bundle, struct err *err)
{
	const struct oci_mount *mount = &config->mounts[index];
	struct bind bind;

	if (!bind_of_mount(mount, &bind))
		return 0;
	if (!mount->source)
		return err_set(err, 0, "mounts[%zu]: a bind mount needs a source", index);
	if (trees->count == FSD_TREES_MAX)
		return err_set(err, 0, "mounts[%zu]: more than %u bind mounts", index,
			       FSD_TREES_MAX - 1);
	if (add(trees, bundle, &bind, (uint32_t)index, err) < 0 ||
	    owners_map(trees->tree[trees->count - 1].fd, config, mount, mount->source, err) < 0)
		return err_wrap(err, "mount %s", mount->destination);
	return 0;
}

/* Whether a path lies in one of the first mounts. */
static bool is_covered(const struct oci_config *config, const char *path, size_t mounts)
{
	for (size_t i = 0; i < mounts; i++) {
		const char *earlier = config->mounts[i].destination;
		size_t length = strlen(earlier);

		if (str_starts_with(path, earlier) && (path[length] == '/' || path[length] == '\0'))
			return true;
	}
	return false;
}

static bool is_file_tree(const struct trees *trees, size_t mount)
{
	for (size_t i = 1; i < trees->count; i++)
		if (trees->tree[i].mount == mount)
			return trees->tree[i].file;
	return false;
}

/*
 * The guest makes mount points and the working directory where they are missing, but not in a root
 * that is read-only for it: there they are made here. What cannot be made is left for the guest to
 * complain of.
 */
static void make_directories(const struct trees *trees, const struct oci_config *config)
{
	const char *cwd = config->process ? config->process->cwd : NULL;
	int fd;

	for (size_t i = 0; i < config->n_mounts; i++) {
		const char *destination = config->mounts[i].destination;

		if (is_covered(config, destination, i))
			continue;
		fd = path_make_in_root(trees->tree[0].fd, destination, !is_file_tree(trees, i),
				       0755, NULL);
		fd_replace(&fd, -1);
	}
	if (cwd && !is_covered(config, cwd, config->n_mounts)) {
		fd = path_make_in_root(trees->tree[0].fd, cwd, true, 0755, NULL);
		fd_replace(&fd, -1);
	}
}

int trees_open(struct trees *trees, const struct oci_config *config, const char *bundle,
	       struct err *err)
{
	const struct bind root = { .source = config->root->path, .recursive = true };

	trees->count = 0;
	trees->tree = xcalloc(config->n_mounts + 1, sizeof(*trees->tree));
	if (config->vm && config->vm->image) /* the root is a disk (disks.c) */
		trees->tree[trees->count++].fd = -1;
	else if (add(trees, bundle, &root, 0, err) < 0)
		return err_wrap(err, "root.path");
	for (size_t i = 0; i < config->n_mounts; i++)
		if (add_mount(trees, config, i, bundle, err) < 0)
			return -1;
	if (!config->root->readonly || trees->tree[0].fd < 0)
		return 0;
	make_directories(trees, config);
	trees->tree[0].read_only = true;
	return make_read_only(trees->tree[0].fd, true, err);
}

void trees_close(struct trees *trees)
{
	for (size_t i = 0; i < trees->count; i++)
		fd_replace(&trees->tree[i].fd, -1);
	free(trees->tree);
	trees->tree = NULL;
	trees->count = 0;
}
