/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cgroup v1: the same path in every mounted hierarchy (the kernel's admin-guide/cgroup-v1). */
#include "cgroup/v1.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cgroup/devices.h"
#include "cgroup/layout.h"
#include "cgroup/settings.h"
#include "cgroup/tree.h"
#include "oci/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX_SIZE	16384
#define FREEZE_MS	2000
#define FREEZE_PAUSE_NS 1000000

/*
 * A cpuset that is new is empty and takes no process: give each level, from the top, what the one
 * above it has.
 */
static int cpuset_fill(const struct hierarchy *h, const char *path, struct err *err)
{
	static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
	_cleanup_free_ char *directory = tree_directory(h->mount, path);

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		_cleanup_free_ char *file = xasprintf("%s/%s", h->mount, files[i]);
		_cleanup_free_ char *value = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, err);
		size_t end = strlen(h->mount);

		while (value && directory[end]) {
			_cleanup_free_ char *own_file = NULL;
			char *own;

			end += 1 + strcspn(directory + end + 1, "/");
			own_file = xasprintf("%.*s/%s", (int)end, directory, files[i]);
			own = file_read(AT_FDCWD, own_file, FILE_MAX_SIZE, NULL, err);
			if (own && own[0] == '\n') {
				free(own);
				if (file_write(AT_FDCWD, own_file, value, err) < 0)
					return -1;
				continue;
			}
			free(value);
			value = own;
		}
		if (!value)
			return -1;
	}
	return 0;
}

/* A limit for which no hierarchy is mounted is not kept by anybody. */
static int check_controllers(const struct layout *layout, const struct settings *settings,
			     struct err *err)
{
	for (size_t i = 0; i < settings->count; i++) {
		const struct setting *s = &settings->items[i];

		if (!s->controller || s->may_lack || layout_find(layout, s->controller))
			continue;
		err_set(err, 0, "set %s: the cgroup controller '%s' is not mounted", s->file,
			s->controller);
		return err_hint(err,
				"mount it: mkdir " CGROUP_MOUNT "/%s; mount -t cgroup -o %s "
				"cgroup " CGROUP_MOUNT "/%s",
				s->controller, s->controller, s->controller);
	}
	return 0;
}

static int write_all(const struct layout *layout, const char *path, struct settings *settings,
		     struct err *err)
{
	for (size_t i = 0; i < layout->n_v1; i++) {
		const struct hierarchy *h = &layout->v1[i];
		_cleanup_free_ char *directory = NULL;
		_cleanup_fd_ int dirfd = -1;
		bool concerned = false;

		for (size_t j = 0; j < settings->count && !concerned; j++)
			concerned = list_has(h->controllers, settings->items[j].controller);
		if (!concerned)
			continue;
		directory = tree_directory(h->mount, path);
		dirfd = tree_open(directory, err);
		if (dirfd < 0)
			return -1;
		if (list_has(h->controllers, "cpuset") && cpuset_fill(h, path, err) < 0)
			return -1;
		if (settings_write(settings, dirfd, directory, h->controllers, err) < 0)
			return -1;
	}
	return 0;
}

static int make_all(const struct layout *layout, const char *path, struct settings *settings,
		    size_t *made, struct err *err)
{
	if (check_controllers(layout, settings, err) < 0)
		return -1;
	for (*made = 0; *made < layout->n_v1; ++*made) {
		const struct hierarchy *h = &layout->v1[*made];
		_cleanup_free_ char *directory = tree_directory(h->mount, path);
		bool parents = false;

		if (tree_make(h->mount, directory, &parents, err) < 0)
			return -1;
	}
	return write_all(layout, path, settings, err);
}

int v1_create(const struct layout *layout, const char *path,
	      const struct oci_linux_resources *resources, struct err *err)
{
	_cleanup_(settings_cleanup) struct settings settings = { 0 };
	_cleanup_(device_rules_cleanup) struct device_rules rules = { 0 };
	const struct limits_now fresh = { 0 };
	size_t made = 0;

	if (settings_v1(resources, &fresh, &settings, err) < 0 ||
	    device_rules_read(resources, &rules, err) < 0)
		return -1;
	if (!device_rules_open(&rules) && device_rules_v1(&rules, &settings, err) < 0)
		return -1;
	if (make_all(layout, path, &settings, &made, err) == 0)
		return 0;
	while (made--) {
		_cleanup_free_ char *directory = tree_directory(layout->v1[made].mount, path);

		rmdir(directory);
	}
	return -1;
}

int v1_update(const struct layout *layout, const char *path,
	      const struct oci_linux_resources *resources, struct err *err)
{
	_cleanup_(settings_cleanup) struct settings settings = { 0 };
	_cleanup_(device_rules_cleanup) struct device_rules rules = { 0 };
	const struct hierarchy *memory = layout_find(layout, "memory");
	struct limits_now now = { 0 };

	if (memory && resources->memory && resources->memory->check_before_update) {
		_cleanup_free_ char *directory = tree_directory(memory->mount, path);
		_cleanup_free_ char *file = xasprintf("%s/memory.usage_in_bytes", directory);
		_cleanup_free_ char *usage = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, err);

		if (!usage)
			return -1;
		now.memory_usage = strtoull(usage, NULL, 10);
	}
	if (settings_v1(resources, &now, &settings, err) < 0 ||
	    device_rules_read(resources, &rules, err) < 0 ||
	    device_rules_v1(&rules, &settings, err) < 0 ||
	    check_controllers(layout, &settings, err) < 0)
		return -1;
	return write_all(layout, path, &settings, err);
}

/*
 * A process that writes its own "0" to tasks moves one thread that cannot change under the
 * kernel's hands, for which no lock has to be waited; through cgroup.procs it would be.
 */
static int enter_one(const struct hierarchy *h, const char *path, pid_t pid, struct err *err)
{
	_cleanup_free_ char *directory = tree_directory(h->mount, path);
	_cleanup_free_ char *file = xasprintf("%s/%s", directory, pid ? "cgroup.procs" : "tasks");
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	if (file_write(AT_FDCWD, file, text, err) == 0)
		return 0;
	if ((err && err->code != ENOSPC) || !list_has(h->controllers, "cpuset"))
		return -1;
	if (cpuset_fill(h, path, err) < 0)
		return -1;
	return file_write(AT_FDCWD, file, text, err);
}

int v1_enter(const struct layout *layout, const char *path, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < layout->n_v1; i++)
		if (enter_one(&layout->v1[i], path, pid, err) < 0)
			return err_wrap(err, "move a process into cgroup %s", path);
	return 0;
}

static char *freezer_file(const struct layout *layout, const char *path)
{
	const struct hierarchy *freezer = layout_find(layout, "freezer");
	_cleanup_free_ char *directory = freezer ? tree_directory(freezer->mount, path) : NULL;

	return directory ? xasprintf("%s/freezer.state", directory) : NULL;
}

void v1_thaw(const struct layout *layout, const char *path)
{
	_cleanup_free_ char *file = freezer_file(layout, path);

	if (file)
		(void)file_write(AT_FDCWD, file, "THAWED", NULL);
}

int v1_freeze(const struct layout *layout, const char *path, bool frozen, struct err *err)
{
	_cleanup_free_ char *file = freezer_file(layout, path);
	uint64_t deadline = tree_clock() + FREEZE_MS;

	if (!file) {
		err_set(err, 0, "pause cgroup %s: the freezer controller is not mounted", path);
		return err_hint(err, "mount it: mkdir " CGROUP_MOUNT "/freezer; mount -t cgroup -o "
				     "freezer cgroup " CGROUP_MOUNT "/freezer");
	}
	if (!frozen)
		return file_write(AT_FDCWD, file, "THAWED", err);
	/* A process that forks meanwhile can leave it FREEZING until it is asked again. */
	while (tree_clock() < deadline) {
		const struct timespec pause = { .tv_nsec = FREEZE_PAUSE_NS };
		_cleanup_free_ char *state = NULL;

		if (file_write(AT_FDCWD, file, "FROZEN", err) < 0)
			return -1;
		state = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, err);
		if (!state)
			return -1;
		if (str_starts_with(state, "FROZEN"))
			return 0;
		nanosleep(&pause, NULL);
	}
	v1_thaw(layout, path);
	return err_set(err, ETIMEDOUT, "pause cgroup %s", path);
}
