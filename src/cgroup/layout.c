/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which hierarchies there are. v2 is told by its file system's magic number; the v1 ones are named
 * in /proc/self/cgroup and are where every distribution mounts them, below /sys/fs/cgroup.
 */
#include "cgroup/layout.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#define CGROUP_HYBRID_MOUNT CGROUP_MOUNT "/unified"
#define PROC_CGROUP_MAX	    65536

static bool is_fs(const char *path, long magic)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == magic;
}

bool list_has(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (const char *p = list; *p; p += strspn(p, ", \n")) {
		size_t n = strcspn(p, ", \n");

		if (n == length && strncmp(p, name, n) == 0)
			return true;
		p += n;
	}
	return false;
}

/* One line of /proc/self/cgroup, "4:memory:/path", taken apart in place. */
static bool parse_line(char *line, char **controllers, char **path)
{
	char *colon = strchr(line, ':');

	if (!colon)
		return false;
	*controllers = colon + 1;
	colon = strchr(*controllers, ':');
	if (!colon)
		return false;
	*colon = '\0';
	*path = colon + 1;
	return true;
}

static void add_v1(struct layout *layout, const char *controllers)
{
	struct hierarchy *h = &layout->v1[layout->n_v1];
	const char *directory = controllers;

	if (!*controllers || layout->n_v1 == ARRAY_LEN(layout->v1) ||
	    strlen(controllers) >= sizeof(h->controllers))
		return;
	if (str_starts_with(controllers, "name="))
		directory += strlen("name=");
	snprintf(h->controllers, sizeof(h->controllers), "%s", controllers);
	snprintf(h->mount, sizeof(h->mount), CGROUP_MOUNT "/%s", directory);
	if (is_fs(h->mount, CGROUP_SUPER_MAGIC))
		layout->n_v1++;
}

static void find_v1(struct layout *layout)
{
	_cleanup_free_ char *text =
		file_read(AT_FDCWD, "/proc/self/cgroup", PROC_CGROUP_MAX, NULL, NULL);
	char *controllers, *path, *rest = text, *line;

	while (rest && (line = strsep(&rest, "\n")))
		if (parse_line(line, &controllers, &path))
			add_v1(layout, controllers);
}

const struct layout *layout_get(void)
{
	static struct layout layout;
	static bool known;

	if (known)
		return &layout;
	known = true;
	if (is_fs(CGROUP_MOUNT, CGROUP2_SUPER_MAGIC)) {
		layout.kind = CGROUP_V2;
		layout.unified = CGROUP_MOUNT;
		return &layout;
	}
	find_v1(&layout);
	if (is_fs(CGROUP_HYBRID_MOUNT, CGROUP2_SUPER_MAGIC))
		layout.unified = CGROUP_HYBRID_MOUNT;
	if (layout.n_v1)
		layout.kind = layout.unified ? CGROUP_HYBRID : CGROUP_V1;
	else
		layout.kind = CGROUP_NONE;
	return &layout;
}

enum cgroup_layout cgroup_layout(void)
{
	return layout_get()->kind;
}

const struct hierarchy *layout_find(const struct layout *layout, const char *controller)
{
	for (size_t i = 0; i < layout->n_v1; i++)
		if (list_has(layout->v1[i].controllers, controller))
			return &layout->v1[i];
	return NULL;
}

/* A process's cgroup in one hierarchy; @who: its directory in /proc. */
static char *cgroup_of(const char *who, const char *controllers, struct err *err)
{
	_cleanup_free_ char *file = xasprintf("/proc/%s/cgroup", who);
	_cleanup_free_ char *text = file_read(AT_FDCWD, file, PROC_CGROUP_MAX, NULL, err);
	char *list, *path, *rest = text, *line;

	if (!text)
		return NULL;
	while (rest && (line = strsep(&rest, "\n")))
		if (parse_line(line, &list, &path) && str_eq(list, controllers))
			return xstrdup(path);
	err_set(err, 0, "find a process's own cgroup: %s has no line for '%s'", file, controllers);
	return NULL;
}

char *layout_own(const char *controllers, struct err *err)
{
	return cgroup_of("self", controllers, err);
}

char *layout_of(pid_t pid, struct err *err)
{
	char who[16];

	snprintf(who, sizeof(who), "%d", (int)pid);
	return cgroup_of(who, "", err);
}
