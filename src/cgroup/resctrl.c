/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Groups in resctrl: found, made, joined, removed. What a schema says is in resctrl_schema.c. */
#include "cgroup/resctrl.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/resctrl_schema.h"
#include "oci/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOUNTINFO_MAX (16u << 20)
#define NOTE	      "resctrl" /* in the state directory: directories to remove, a line each */
#define NOTE_MAX      16384

char *resctrl_find(const char *given, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	char *rest;

	if (given)
		return xstrdup(given);
	text = file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, NULL, err);
	rest = text;
	for (char *line; (line = strsep(&rest, "\n")) && *line;) {
		char *place = line;

		if (!strstr(line, " - resctrl "))
			continue;
		for (int i = 0; i < 4 && place; i++)
			place = strchr(place, ' ') ? strchr(place, ' ') + 1 : NULL;
		if (place)
			return xasprintf("%.*s", (int)strcspn(place, " "), place);
	}
	if (text) {
		err_set(err, 0, "linux.intelRdt: resctrl is not mounted");
		err_hint(err, "mount -t resctrl resctrl /sys/fs/resctrl, on a machine whose "
			      "processors can share out cache or memory bandwidth");
	}
	return NULL;
}

static bool is_named(const struct oci_intel_rdt *config)
{
	return config->clos_id && *config->clos_id;
}

static bool is_monitored(const struct oci_intel_rdt *config)
{
	return config->enable_monitoring || config->enable_cmt || config->enable_mbm;
}

/* A name, and not one of the kernel's own beside the groups. "/" is the group of all others. */
static int check_name(const struct oci_intel_rdt *config, struct err *err)
{
	const char *name = config->clos_id;

	if (!is_named(config))
		return 0;
	if (str_eq(name, "/"))
		return !resctrl_has_schema(config)
			       ? 0
			       : err_set(err, 0,
					 "linux.intelRdt.closID: \"/\" is the host's own group, "
					 "whose schemata is not a container's to set");
	if (strchr(name, '/') || strchr(name, '\n') || !path_is_clean(name) ||
	    str_eq(name, "info") || str_eq(name, "mon_groups") || str_eq(name, "mon_data"))
		return err_set(err, 0,
			       "linux.intelRdt.closID: expected the name of a group, found "
			       "'%s'",
			       name);
	return 0;
}

static char *group_path(const char *root, const struct oci_intel_rdt *config, const char *id)
{
	if (is_named(config) && str_eq(config->clos_id, "/"))
		return xstrdup(root);
	return xasprintf("%s/%s", root, is_named(config) ? config->clos_id : id);
}

static char *monitor_path(const char *group, const char *id)
{
	return xasprintf("%s/mon_groups/%s", group, id);
}

static int make_group(const char *path, struct err *err)
{
	if (mkdir(path, 0755) == 0)
		return 0;
	err_set(err, errno, "make the resctrl group %s", path);
	if (err && err->code == ENOSPC)
		err_hint(err, "the processors have no more of them: remove another one");
	else if (err && err->code == EEXIST)
		err_hint(err, "it is somebody else's, or was left by a crash: rmdir it");
	return -1;
}

/* What there has to be, or not to be, before anything is made. */
static int check_groups(const struct oci_intel_rdt *config, const char *group, const char *monitor,
			bool there, struct err *err)
{
	if (check_name(config, err) < 0)
		return -1;
	if (monitor && access(monitor, F_OK) == 0)
		return err_set(err, EEXIST, "make the resctrl group %s", monitor);
	if (is_named(config) && there)
		return resctrl_compare(group, config, err);
	if (there)
		return err_set(err, EEXIST, "make the resctrl group %s", group);
	if (!is_named(config) || resctrl_has_schema(config))
		return 0;
	err_set(err, ENOENT, "find the resctrl group %s of linux.intelRdt.closID", group);
	return err_hint(err, "make it, or give a schema for it in config.json");
}

/* What is to be removed is noted before it is made: who is killed in between leaves nothing. */
static int note(int state_fd, const char *group, const char *monitor, struct err *err)
{
	_cleanup_free_ char *text =
		xasprintf("%s%s%s%s", monitor ? monitor : "", monitor ? "\n" : "",
			  group ? group : "", group ? "\n" : "");

	return file_replace(state_fd, NOTE, text, strlen(text), 0600, err);
}

static int make_groups(const char *root, const struct oci_intel_rdt *config, const char *group,
		       const char *monitor, struct err *err)
{
	if (group && (make_group(group, err) < 0 ||
		      (resctrl_has_schema(config) && resctrl_write(root, group, config, err) < 0)))
		return -1;
	return monitor ? make_group(monitor, err) : 0;
}

int resctrl_prepare(const char *root, const struct oci_intel_rdt *config, const char *id,
		    int state_fd, struct err *err)
{
	_cleanup_free_ char *group = group_path(root, config, id);
	_cleanup_free_ char *monitor = is_monitored(config) ? monitor_path(group, id) : NULL;
	bool there = access(group, F_OK) == 0;

	if (check_groups(config, group, monitor, there, err) < 0)
		return -1;
	if (there && !monitor)
		return 0;
	if (note(state_fd, there ? NULL : group, monitor, err) < 0)
		return -1;
	if (make_groups(root, config, there ? NULL : group, monitor, err) == 0)
		return 0;
	resctrl_release(state_fd, NULL);
	return -1;
}

int resctrl_settle(const char *root, const struct oci_intel_rdt *config, const char *id,
		   int state_fd, struct err *err)
{
	_cleanup_free_ char *group = group_path(root, config, id);
	_cleanup_free_ char *monitor = is_monitored(config) ? monitor_path(group, id) : NULL;

	return is_named(config) ? note(state_fd, NULL, monitor, err) : 0;
}

static int add(const char *group, pid_t pid, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/tasks", group);
	char text[16];

	snprintf(text, sizeof(text), "%d\n", (int)pid);
	return file_write(AT_FDCWD, path, text, err);
}

int resctrl_join(const char *root, const struct oci_intel_rdt *config, const char *id, pid_t pid,
		 struct err *err)
{
	_cleanup_free_ char *group = group_path(root, config, id);
	_cleanup_free_ char *monitor = is_monitored(config) ? monitor_path(group, id) : NULL;

	if (add(group, pid, err) < 0 || (monitor && add(monitor, pid, err) < 0))
		return err_wrap(err, "put process %d into its resctrl group", (int)pid);
	return 0;
}

int resctrl_update(const char *root, const struct oci_intel_rdt *config, const char *id,
		   const char *l3, const char *bandwidth, struct err *err)
{
	_cleanup_free_ char *group = group_path(root, config, id);
	struct oci_intel_rdt wanted = { .clos_id = config->clos_id,
					.l3_cache_schema = (char *)l3,
					.mem_bw_schema = (char *)bandwidth };

	return check_name(&wanted, err) < 0 ? -1 : resctrl_write(root, group, &wanted, err);
}

int resctrl_release(int state_fd, struct err *err)
{
	_cleanup_free_ char *text = file_read(state_fd, NOTE, NOTE_MAX, NULL, NULL);
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line && rmdir(line) < 0 && errno != ENOENT)
			return err_set(err, errno, "remove the resctrl group %s", line);
	if (text)
		unlinkat(state_fd, NOTE, 0);
	return 0;
}
