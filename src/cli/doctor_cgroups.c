/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Control groups: which layout, and which limits can be kept where moat would make a cgroup. */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define MOUNT_POINT "/sys/fs/cgroup"

/* What config.json's resources need most. On v2 devices are a BPF program, the freezer is core. */
static const char *const v2_controllers[] = { "cpu", "memory", "pids", NULL };
static const char *const v1_controllers[] = { "cpu", "memory", "pids", "devices", "freezer", NULL };

static bool has_word(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += length)
		if ((at == words || strchr(" \n", at[-1])) && strchr(" \n", at[length]))
			return true;
	return false;
}

static void append(char *list, size_t room, const char *word)
{
	size_t used = strlen(list);

	snprintf(list + used, room - used, "%s%s", used ? " " : "", word);
}

/* The directory below which moat makes cgroups: where our own cgroup lies. */
static char *v2_directory(void)
{
	_cleanup_free_ char *text = file_read(AT_FDCWD, "/proc/self/cgroup", 65536, NULL, NULL);
	char *path = text ? strstr(text, "0::/") : NULL, *slash;

	if (!path || (path != text && path[-1] != '\n'))
		return xstrdup(MOUNT_POINT);
	path += 3;
	path[strcspn(path, "\n")] = '\0';
	slash = strrchr(path, '/');
	*slash = '\0';
	return xasprintf("%s%s", MOUNT_POINT, path);
}

static void check_v2(struct diagnosis *diagnosis)
{
	_cleanup_free_ char *directory = v2_directory();
	_cleanup_free_ char *file = xasprintf("%s/cgroup.controllers", directory);
	_cleanup_free_ char *text = file_read(AT_FDCWD, file, 4096, NULL, NULL);
	char lack[64] = "";

	for (const char *const *name = v2_controllers; *name; name++)
		if (!text || !has_word(text, *name))
			append(lack, sizeof(lack), *name);
	if (text)
		text[strcspn(text, "\n")] = '\0';
	if (access(directory, W_OK) < 0)
		found(diagnosis, VERDICT_WARN, 0, "cgroups",
		      "run as root, or have a directory delegated (systemd-run --user --scope -p "
		      "Delegate=yes); without, limits cannot be kept",
		      "v2, but %s is not writable", directory);
	else if (*lack)
		found(diagnosis, VERDICT_WARN, 0, "cgroups",
		      "write them to cgroup.subtree_control of the cgroups above",
		      "v2, but %s does not have the controllers: %s", directory, lack);
	else
		found(diagnosis, VERDICT_OK, 0, "cgroups", NULL, "v2, in %s: %s", directory, text);
}

static void check_v1(struct diagnosis *diagnosis, bool hybrid)
{
	char lack[64] = "", have[64] = "";

	for (const char *const *name = v1_controllers; *name; name++) {
		_cleanup_free_ char *directory = xasprintf("%s/%s", MOUNT_POINT, *name);

		if (access(directory, W_OK) == 0)
			append(have, sizeof(have), *name);
		else
			append(lack, sizeof(lack), *name);
	}
	if (*lack)
		found(diagnosis, VERDICT_WARN, 0, "cgroups",
		      "mount them, run as root, or boot with cgroup v2 "
		      "(systemd.unified_cgroup_hierarchy=1)",
		      "%s; not there or not writable: %s", hybrid ? "hybrid (v1)" : "v1", lack);
	else
		found(diagnosis, VERDICT_OK, 0, "cgroups", NULL, "%s: %s",
		      hybrid ? "hybrid (limits by v1)" : "v1", have);
}

void doctor_cgroups(struct diagnosis *diagnosis)
{
	enum cgroup_layout layout = cgroup_layout();

	if (layout == CGROUP_V2)
		check_v2(diagnosis);
	else if (layout == CGROUP_V1 || layout == CGROUP_HYBRID)
		check_v1(diagnosis, layout == CGROUP_HYBRID);
	else
		found(diagnosis, VERDICT_WARN, 0, "cgroups",
		      "mount -t cgroup2 cgroup2 " MOUNT_POINT
		      ", or give --cgroup-manager disabled; without, limits cannot be kept",
		      "none below " MOUNT_POINT);
}
