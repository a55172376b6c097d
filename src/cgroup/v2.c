/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cgroup v2: creation and limits. A controller is there in a cgroup when every one above it names
 * it in cgroup.subtree_control, which can only be done in cgroups without processes of their own
 * (admin-guide/cgroup-v2, "No Internal Process Constraint").
 */
#include "cgroup/v2.h"

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
#include <unistd.h>

#define FILE_MAX_SIZE 4096

/* Switched on although no limit needs them: engines' statistics read their files. */
static const char *const for_statistics[] = { "cpu", "io", "memory", "pids" };

struct wanted {
	const char *names[16];
	size_t count, required; /* the required ones come first */
};

static void want(struct wanted *w, const char *name)
{
	for (size_t i = 0; i < w->count; i++)
		if (str_eq(w->names[i], name))
			return;
	if (w->count < ARRAY_LEN(w->names))
		w->names[w->count++] = name;
}

/* Writes "+a +b" for names from..to to a cgroup's subtree_control. */
static int pass_on(const char *directory, const struct wanted *w, size_t from, size_t to,
		   struct err *err)
{
	_cleanup_free_ char *file = xasprintf("%s/cgroup.subtree_control", directory);
	char text[256];
	size_t used = 0;

	for (size_t i = from; i < to; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s+%s", used ? " " : "",
					 w->names[i]);
	return used ? file_write(AT_FDCWD, file, text, err) : 0;
}

static int explain_refusal(const char *directory, struct err *err)
{
	_cleanup_free_ char *file = xasprintf("%s/cgroup.type", directory);
	_cleanup_free_ char *type = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, NULL);
	int code = err ? err->code : 0;

	if (type && (strstr(type, "threaded") || strstr(type, "invalid")))
		err_hint(err, "the cgroup is threaded: containers need a domain");
	else if (code == EBUSY)
		err_hint(err,
			 "it has processes of its own, and v2 gives controllers only to cgroups "
			 "below one that has none: move them to a cgroup below it");
	else if (code == EACCES || code == EPERM || code == EROFS)
		err_hint(err, "it is not delegated to us: systemd does so with Delegate=yes");
	return -1;
}

/* Those that the cgroup does not pass on yet: above what is delegated, nothing may be written. */
static struct wanted missing(const char *directory, const struct wanted *all)
{
	_cleanup_free_ char *file = xasprintf("%s/cgroup.subtree_control", directory);
	_cleanup_free_ char *list = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, NULL);
	struct wanted w = { 0 };

	for (size_t i = 0; i < all->count; i++) {
		if (list && list_has(list, all->names[i]))
			continue;
		want(&w, all->names[i]);
		w.required += i < all->required;
	}
	return w;
}

static int pass_on_one_level(const char *directory, const struct wanted *all, struct err *err)
{
	const struct wanted here = missing(directory, all), *w = &here;

	if (pass_on(directory, w, 0, w->count, NULL) == 0)
		return 0;
	if (pass_on(directory, w, 0, w->required, err) < 0)
		return explain_refusal(directory, err);
	for (size_t i = w->required; i < w->count; i++)
		(void)pass_on(directory, w, i, i + 1, NULL);
	return 0;
}

/* Refuses what the hierarchy does not offer, where a limit needs it, and forgets it elsewhere. */
static int check_available(const char *mount, struct wanted *w, struct err *err)
{
	_cleanup_free_ char *file = xasprintf("%s/cgroup.controllers", mount);
	_cleanup_free_ char *list = file_read(AT_FDCWD, file, FILE_MAX_SIZE, NULL, err);
	size_t kept = 0;

	if (!list)
		return -1;
	for (size_t i = 0; i < w->count; i++) {
		if (list_has(list, w->names[i])) {
			w->names[kept++] = w->names[i];
		} else if (i < w->required) {
			err_set(err, 0, "use the cgroup controller '%s', which is not in %s",
				w->names[i], file);
			return err_hint(err, "the kernel is built or booted without it, a v1 "
					     "hierarchy has it, or it is not delegated to us");
		}
	}
	w->count = kept;
	return 0;
}

/* A cgroup below a threaded one takes no processes; better to be told now than by clone3(2). */
static int check_domain(int dirfd, const char *directory, struct err *err)
{
	_cleanup_free_ char *type = file_read(dirfd, "cgroup.type", FILE_MAX_SIZE, NULL, NULL);

	if (!type || str_starts_with(type, "domain\n") || str_starts_with(type, "domain threaded"))
		return 0;
	err_set(err, EOPNOTSUPP, "use cgroup %s, below a threaded one", directory);
	return err_hint(err, "containers need a domain: choose another linux.cgroupsPath");
}

/* Makes the controllers that settings need available in the cgroup. */
static int enable(const char *mount, const char *directory, int dirfd,
		  const struct settings *settings, struct err *err)
{
	_cleanup_free_ char *present =
		file_read(dirfd, "cgroup.controllers", FILE_MAX_SIZE, NULL, err);
	_cleanup_free_ char *above = xstrdup(directory);
	struct wanted w = { 0 };

	if (!present)
		return -1;
	for (size_t i = 0; i < settings->count; i++) {
		const struct setting *s = &settings->items[i];

		if (s->controller && !s->may_lack && !list_has(present, s->controller))
			want(&w, s->controller);
	}
	w.required = w.count;
	for (size_t i = 0; i < ARRAY_LEN(for_statistics); i++)
		if (!list_has(present, for_statistics[i]))
			want(&w, for_statistics[i]);
	if (!w.count)
		return 0;
	if (check_available(mount, &w, err) < 0)
		return -1;
	for (char *p = above + strlen(mount); (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (pass_on_one_level(above, &w, err) < 0)
			return -1;
		*p = '/';
	}
	return check_domain(dirfd, directory, err);
}

static int set_up(const char *mount, const char *directory,
		  const struct oci_linux_resources *resources, struct err *err)
{
	_cleanup_(settings_cleanup) struct settings settings = { 0 };
	_cleanup_(device_rules_cleanup) struct device_rules rules = { 0 };
	const struct limits_now fresh = { 0 };
	_cleanup_fd_ int dirfd = -1;

	if (settings_v2(resources, &fresh, &settings, err) < 0 ||
	    device_rules_read(resources, &rules, err) < 0)
		return -1;
	dirfd = tree_open(directory, err);
	if (dirfd < 0 || enable(mount, directory, dirfd, &settings, err) < 0 ||
	    settings_write(&settings, dirfd, directory, NULL, err) < 0)
		return -1;
	return device_rules_open(&rules) ? 0 : device_attach(&rules, dirfd, false, err);
}

int v2_create(const char *mount, const char *path, const struct oci_linux_resources *resources,
	      struct err *err)
{
	_cleanup_free_ char *directory = tree_directory(mount, path);
	bool parents = false;

	if (tree_make(mount, directory, &parents, err) < 0)
		return -1;
	if (set_up(mount, directory, resources, err) == 0)
		return 0;
	rmdir(directory);
	return -1;
}

int v2_adopt(const char *mount, const char *path, const struct oci_linux_resources *resources,
	     struct err *err)
{
	_cleanup_free_ char *directory = tree_directory(mount, path);

	return set_up(mount, directory, resources, err);
}

/* Reads what the new limits are to be judged by, as far as they are. */
static int read_now(int dirfd, const struct oci_linux_resources *r, struct limits_now *now,
		    struct err *err)
{
	_cleanup_free_ char *limit = NULL, *quota = NULL, *usage = NULL;

	if (r->memory && r->memory->swap > 0 && !r->memory->limit) {
		limit = file_read(dirfd, "memory.max", FILE_MAX_SIZE, NULL, err);
		if (!limit)
			return -1;
		now->memory_limit = str_starts_with(limit, "max") ? 0 : atoll(limit);
	}
	if (r->memory && r->memory->check_before_update) {
		usage = file_read(dirfd, "memory.current", FILE_MAX_SIZE, NULL, err);
		if (!usage)
			return -1;
		now->memory_usage = strtoull(usage, NULL, 10);
	}
	if (r->cpu && r->cpu->period && !r->cpu->quota) {
		quota = file_read(dirfd, "cpu.max", FILE_MAX_SIZE, NULL, err);
		if (!quota)
			return -1;
		quota[strcspn(quota, " ")] = '\0';
		snprintf(now->cpu_quota, sizeof(now->cpu_quota), "%.31s", quota);
	}
	return 0;
}

int v2_update(const char *mount, const char *path, const struct oci_linux_resources *resources,
	      struct err *err)
{
	_cleanup_(settings_cleanup) struct settings settings = { 0 };
	_cleanup_(device_rules_cleanup) struct device_rules rules = { 0 };
	_cleanup_free_ char *directory = tree_directory(mount, path);
	_cleanup_fd_ int dirfd = tree_open(directory, err);
	struct limits_now now = { 0 };

	if (dirfd < 0 || read_now(dirfd, resources, &now, err) < 0 ||
	    settings_v2(resources, &now, &settings, err) < 0 ||
	    device_rules_read(resources, &rules, err) < 0 ||
	    enable(mount, directory, dirfd, &settings, err) < 0 ||
	    settings_write(&settings, dirfd, directory, NULL, err) < 0)
		return -1;
	return rules.count ? device_attach(&rules, dirfd, true, err) : 0;
}
