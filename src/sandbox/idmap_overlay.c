/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An overlay whose files have mapped owners. The kernel maps layers and not an overlay itself
 * (filesystems/overlayfs): a second overlay is made of the same layers, mapped. A helper does so in
 * a mount namespace of its own, as an overlay is not made of mounts that are nowhere; it is the
 * host's root in what it may do, and the container's in whom new files belong to.
 *
 * The upper layer is then used by two overlays. The kernel allows that and promises nothing about
 * what one sees of the other's changes. The engine's own is hardly used while the container runs;
 * what it remembers of names is dropped here, so that docker diff looks at them afresh.
 */
#include "sandbox/idmap.h"
#include "sandbox/idmap_layers.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PLACE "/tmp" /* in the helper's namespace only: any directory will do */

static int open_layer(const struct idmap *map, const struct layers *layers, const char *layer,
		      struct err *err)
{
	_cleanup_free_ char *path = layers_path(layers, layer, err);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_IDMAP,
		.userns_fd = (uint64_t)map->userns,
	};
	_cleanup_fd_ int tree = -1;

	if (!path)
		return -1;
	tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return err_set(err, errno, "open its layer %s", path);
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, errno, "map the owners of files in its layer %s", path);
	return fd_steal(&tree);
}

static int attach(int tree, const char *name, struct err *err)
{
	if (mkdir(name, 0700) < 0 || move_mount(tree, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH))
		return err_set(err, errno, "attach a layer");
	return 0;
}

/* Upper and work have to be in one mount: that of the directory above both. */
static char *common_parent(const char *a, const char *b)
{
	size_t slash = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '/')
			slash = i;
	return slash ? xasprintf("%.*s", (int)slash, a) : xstrdup("/");
}

/* What has been opened, before any of it is attached: the place may hide what the paths lead to. */
struct opened {
	int *lower;
	int parent;	    /* of upper and work; -1: read-only */
	char *upper, *work; /* below parent: "/..." */
};

/*
 * A work directory of our own, within the engine's, which removes it with the container: the
 * engine's own refuses a second overlay where the first is volatile, as podman's are with --rm.
 */
static char *make_work(const struct layers *layers, struct err *err)
{
	_cleanup_free_ char *engines = layers_path(layers, layers->work, err), *ours = NULL;

	if (!engines)
		return NULL;
	ours = xasprintf("%s/moat", engines);
	if (mkdir(ours, 0700) == 0 || errno == EEXIST)
		return steal(ours);
	err_set(err, errno, "make the directory %s", ours);
	return NULL;
}

static int open_upper(const struct idmap *map, const struct layers *layers, struct opened *opened,
		      struct err *err)
{
	_cleanup_free_ char *upper = NULL, *work = NULL, *parent = NULL;
	size_t skip;

	opened->parent = -1;
	if (!layers->upper)
		return 0;
	upper = layers_path(layers, layers->upper, err);
	work = upper ? make_work(layers, err) : NULL;
	if (!work)
		return -1;
	parent = common_parent(upper, work);
	skip = str_eq(parent, "/") ? 0 : strlen(parent);
	opened->upper = xstrdup(upper + skip);
	opened->work = xstrdup(work + skip);
	opened->parent = open_layer(map, layers, parent, err);
	return opened->parent < 0 ? -1 : 0;
}

static int attach_all(const struct layers *layers, const struct opened *opened, char **options,
		      struct err *err)
{
	if (mount("tmpfs", PLACE, "tmpfs", 0, "mode=711") < 0 || chdir(PLACE) < 0)
		return err_set(err, errno, "make room for the layers");
	*options = xasprintf("%s,lowerdir=", layers->extra);
	for (size_t i = 0; i < layers->n_lower; i++) {
		_cleanup_free_ char *before = *options;
		char name[32];

		snprintf(name, sizeof(name), "%zu", i);
		*options = xasprintf("%s%s%s", before, i ? ":" : "", name);
		if (attach(opened->lower[i], name, err) < 0)
			return -1;
	}
	if (opened->parent >= 0) {
		_cleanup_free_ char *before = *options;

		*options = xasprintf("%s,upperdir=upper%s,workdir=upper%s", before, opened->upper,
				     opened->work);
		return attach(opened->parent, "upper", err);
	}
	return 0;
}

/* The helper ends soon: what it opens and allocates goes with it. */
static int attach_layers(const struct idmap *map, const struct layers *layers, char **options,
			 struct err *err)
{
	struct opened opened = { .lower = xcalloc(layers->n_lower, sizeof(int)) };
	int r = open_upper(map, layers, &opened, err);

	for (size_t i = 0; r == 0 && i < layers->n_lower; i++) {
		opened.lower[i] = open_layer(map, layers, layers->lower[i], err);
		r = opened.lower[i] < 0 ? -1 : 0;
	}
	return r < 0 ? -1 : attach_all(layers, &opened, options, err);
}

/* Files that the overlay itself makes, as in its work directory, need an owner that is mapped. */
static int become_owner(const struct idmap *map, struct err *err)
{
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    setresgid(map->gid, map->gid, map->gid) < 0 ||
	    setresuid(map->uid, map->uid, map->uid) < 0)
		return err_set(err, errno, "become the container's root");
	return 0;
}

static int make(const struct idmap *map, const struct layers *layers, struct err *err)
{
	_cleanup_free_ char *options = NULL, *below = NULL;
	int tree;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_set(err, errno, "leave the host's propagation");
	if (attach_layers(map, layers, &options, err) < 0)
		return -1;
	if (mkdir("merged", 0700) < 0 || chown("merged", map->uid, map->gid) < 0)
		return err_set(err, errno, "make room for the overlay");
	if (become_owner(map, err) < 0)
		return -1;
	if (mount("overlay", "merged", "overlay", 0, options) < 0)
		return err_set(err, errno, "make an overlay of mapped layers");
	below = xasprintf("merged%s", layers->below);
	tree = open_tree(AT_FDCWD, below, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 ? err_set(err, errno, "open the overlay of mapped layers") : tree;
}

/* The answer is the overlay, or why there is none. */
static _Noreturn void helper_main(const struct idmap *map, const struct layers *layers, int channel)
{
	struct err err = { 0 };
	int tree = make(map, layers, &err);

	_exit(fd_send(channel, &err, sizeof(err), &tree, tree >= 0) < 0);
}

/*
 * Reconfiguring a file system without any change drops its unused names. A failure costs nothing.
 */
static void forget_names(const char *path)
{
	_cleanup_fd_ int context = fspick(AT_FDCWD, path, FSPICK_CLOEXEC);

	if (context >= 0)
		fsconfig(context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
}

int idmap_overlay(const struct idmap *map, const char *path, struct err *err)
{
	struct clone_args args = {
		.flags = CLONE_NEWNS | CLONE_CLEAR_SIGHAND,
		.exit_signal = SIGCHLD,
	};
	_cleanup_(layers_free) struct layers layers = { 0 };
	_cleanup_fd_ int ours = -1, its = -1;
	int channel[2], tree;
	struct err answer;
	pid_t helper;
	ssize_t n;

	if (layers_find(path, &layers, err) < 0)
		return -1;
	if (fd_socketpair(SOCK_SEQPACKET, channel) < 0)
		return err_set(err, errno, "make a socket pair");
	ours = channel[0];
	its = channel[1];
	helper = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (helper == 0)
		helper_main(map, &layers, its);
	if (helper < 0)
		return err_set(err, errno, "make a process");
	fd_replace(&its, -1);
	n = fd_receive(ours, &answer, sizeof(answer), &tree, 1);
	proc_wait(helper);
	if (n != sizeof(answer))
		return err_set(err, 0, "the process that made it was killed");
	if (tree < 0)
		*err = answer;
	else
		forget_names(path);
	return tree;
}
