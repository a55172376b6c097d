/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface: v2, v1 or both. On a hybrid host the v2 hierarchy has no controllers, but it
 * keeps track of processes better than any v1 one: it kills and freezes them at once, and clone3(2)
 * puts a child into it.
 */
#include "cgroup/cgroup.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"
#include "cgroup/v1.h"
#include "cgroup/v2.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define END_MS	  5000 /* how long killed processes may take to end */
#define FREEZE_MS 2000

static int no_cgroups(struct err *err)
{
	err_set(err, 0, "use cgroups: none are mounted at " CGROUP_MOUNT);
	return err_hint(err, "mount -t cgroup2 cgroup2 " CGROUP_MOUNT);
}

int cgroup_create(const char *path, const struct oci_linux_resources *resources, struct err *err)
{
	const struct layout *layout = layout_get();

	if (layout->kind == CGROUP_NONE)
		return no_cgroups(err);
	if (layout->kind == CGROUP_V2)
		return v2_create(layout->unified, path, resources, err);
	if (v1_create(layout, path, resources, err) < 0)
		return -1;
	if (layout->unified) {
		_cleanup_free_ char *directory = tree_directory(layout->unified, path);
		bool parents = false;

		if (tree_make(layout->unified, directory, &parents, err) < 0) {
			(void)cgroup_remove(path, NULL);
			return -1;
		}
	}
	return 0;
}

int cgroup_adopt(const char *path, const struct oci_linux_resources *resources, struct err *err)
{
	const struct layout *layout = layout_get();

	return layout->kind == CGROUP_V2 ? v2_adopt(layout->unified, path, resources, err)
					 : no_cgroups(err);
}

/* Whether the nearest directory that is there can be written to. */
static bool may_create(const char *mount, const char *path)
{
	_cleanup_free_ char *directory = tree_directory(mount, path);

	while (access(directory, F_OK) < 0 && strlen(directory) > strlen(mount))
		*strrchr(directory, '/') = '\0';
	return access(directory, W_OK) == 0;
}

bool cgroup_may_create(const char *path)
{
	const struct layout *layout = layout_get();

	for (size_t i = 0; i < layout->n_v1; i++)
		if (!may_create(layout->v1[i].mount, path))
			return false;
	return !layout->unified || may_create(layout->unified, path);
}

int cgroup_update(const char *path, const struct oci_linux_resources *resources, struct err *err)
{
	const struct layout *layout = layout_get();

	if (layout->kind == CGROUP_NONE)
		return no_cgroups(err);
	if (layout->kind == CGROUP_V2)
		return v2_update(layout->unified, path, resources, err);
	return v1_update(layout, path, resources, err);
}

/* Joining again would cost what CLONE_INTO_CGROUP saved. */
static bool is_in(const char *path)
{
	_cleanup_free_ char *own = layout_own("", NULL);

	return own && str_eq(own + (own[0] == '/'), path + (path[0] == '/'));
}

int cgroup_enter(const char *path, pid_t pid, struct err *err)
{
	const struct layout *layout = layout_get();

	if (layout->kind == CGROUP_NONE)
		return no_cgroups(err);
	if (layout->unified && !(pid == 0 && is_in(path))) {
		_cleanup_free_ char *directory = tree_directory(layout->unified, path);
		_cleanup_free_ char *file = xasprintf("%s/cgroup.procs", directory);
		char text[16];

		snprintf(text, sizeof(text), "%d", (int)pid);
		if (file_write(AT_FDCWD, file, text, err) < 0)
			return err_wrap(err, "move a process into cgroup %s", path);
	}
	return v1_enter(layout, path, pid, err);
}

int cgroup_enter_v1(const char *path, struct err *err)
{
	return v1_enter(layout_get(), path, 0, err);
}

int cgroup_open(const char *path)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *directory = NULL;

	if (!layout->unified) {
		errno = ENOENT;
		return -1;
	}
	directory = tree_directory(layout->unified, path);
	return open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Where all of the container's processes are listed. */
static char *tracking_directory(const struct layout *layout, const char *path)
{
	const struct hierarchy *h = layout_find(layout, "freezer");

	if (layout->unified)
		return tree_directory(layout->unified, path);
	if (!h && layout->n_v1)
		h = &layout->v1[0];
	return h ? tree_directory(h->mount, path) : NULL;
}

char *cgroup_directory(const char *path)
{
	return tracking_directory(layout_get(), path);
}

int cgroup_signal(const char *path, int signal, struct err *err)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *directory = tracking_directory(layout, path);
	_cleanup_free_ char *file = NULL;

	if (!directory)
		return no_cgroups(err);
	if (signal == SIGKILL && layout->unified) {
		file = xasprintf("%s/cgroup.kill", directory); /* Linux 5.14 */
		if (file_write(AT_FDCWD, file, "1", NULL) == 0)
			return 0;
	}
	if (tree_signal(directory, signal, err) < 0)
		return -1;
	if (signal == SIGKILL)
		cgroup_let_die(path);
	return 0;
}

void cgroup_let_die(const char *path)
{
	const struct layout *layout = layout_get();

	if (layout->kind != CGROUP_NONE && !layout->unified)
		v1_thaw(layout, path);
}

bool cgroup_is_empty(const char *path)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *directory = tracking_directory(layout, path);
	_cleanup_free_ char *events = directory ? xasprintf("%s/cgroup.events", directory) : NULL;
	_cleanup_free_ char *text = NULL;

	if (!directory)
		return false;
	if (access(directory, F_OK) < 0)
		return errno == ENOENT;
	if (!layout->unified)
		return tree_signal(directory, 0, NULL) == 0;
	text = file_read(AT_FDCWD, events, 4096, NULL, NULL);
	return text && strstr(text, "populated 0");
}

int cgroup_processes(const char *path, pid_t **pids, size_t *count, struct err *err)
{
	_cleanup_free_ char *directory = tracking_directory(layout_get(), path);

	return directory ? tree_processes(directory, pids, count, err) : no_cgroups(err);
}

static int freeze_v2(const char *directory, bool frozen, struct err *err)
{
	_cleanup_fd_ int dirfd = tree_open(directory, err);

	if (dirfd < 0 || file_write(dirfd, "cgroup.freeze", frozen ? "1" : "0", err) < 0)
		return -1;
	if (tree_wait_event(dirfd, frozen ? "frozen 1" : "frozen 0", tree_clock() + FREEZE_MS) == 0)
		return 0;
	err_set(err, errno, "%s cgroup %s", frozen ? "pause" : "resume", directory);
	if (frozen)
		(void)file_write(dirfd, "cgroup.freeze", "0", NULL);
	return -1;
}

int cgroup_freeze(const char *path, bool frozen, struct err *err)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *directory = NULL;

	if (layout->kind == CGROUP_NONE)
		return no_cgroups(err);
	if (!layout->unified)
		return v1_freeze(layout, path, frozen, err);
	directory = tree_directory(layout->unified, path);
	return freeze_v2(directory, frozen, err);
}

/* Ends what is in the cgroup, as removing it has failed. Returns 0 once it is empty, or -1. */
static int end_processes(const struct layout *layout, const char *path, const char *directory,
			 uint64_t deadline, struct err *err)
{
	_cleanup_fd_ int dirfd = -1;

	if (cgroup_signal(path, SIGKILL, err) < 0)
		return -1;
	if (!layout->unified)
		return 0; /* tree_remove() goes on killing */
	dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd >= 0)
		(void)tree_wait_event(dirfd, "populated 0", deadline);
	return 0; /* what is left is reported by the removal */
}

static int remove_from(const char *mount, const char *path, uint64_t deadline, struct err *err)
{
	_cleanup_free_ char *directory = tree_directory(mount, path);

	if (rmdir(directory) == 0 || errno == ENOENT)
		return 0;
	return tree_remove(directory, deadline, true, err);
}

int cgroup_remove(const char *path, struct err *err)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *directory = tracking_directory(layout, path);
	uint64_t deadline = tree_clock() + END_MS;

	if (!directory)
		return 0;
	if (rmdir(directory) < 0 && errno != ENOENT) {
		if (end_processes(layout, path, directory, deadline, err) < 0 ||
		    tree_remove(directory, deadline, true, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < layout->n_v1; i++)
		if (remove_from(layout->v1[i].mount, path, deadline, err) < 0)
			return -1;
	return 0;
}

void cgroup_remove_empty(const char *path)
{
	const struct layout *layout = layout_get();

	for (size_t i = 0; i <= layout->n_v1; i++) {
		const char *mount = i < layout->n_v1 ? layout->v1[i].mount : layout->unified;
		_cleanup_free_ char *directory = mount ? tree_directory(mount, path) : NULL;

		if (directory)
			rmdir(directory);
	}
}
