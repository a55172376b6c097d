/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cgroup given to a user, who may then divide it among processes of his own (admin-guide/
 * cgroup-v2, "Model of Delegation"): its limits stay ours.
 */
#include "cgroup/cgroup.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST	 "/sys/kernel/cgroup/delegate"
#define LIST_MAX 4096
/* What kernels before 4.15, which have no list, delegate. */
#define USUAL "cgroup.procs\ncgroup.threads\ncgroup.subtree_control"

static int give(int dirfd, const char *name, uid_t owner, int flags)
{
	return fchownat(dirfd, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW | flags) < 0 &&
			       errno != ENOENT
		       ? -1
		       : 0;
}

static int bound(int dirfd, unsigned int most, struct err *err)
{
	char text[16];

	if (!most)
		return 0;
	snprintf(text, sizeof(text), "%u", most);
	return file_write(dirfd, "cgroup.max.descendants", text, err);
}

int cgroup_delegate(const char *path, uid_t owner, unsigned int most, struct err *err)
{
	const struct layout *layout = layout_get();
	_cleanup_free_ char *list = NULL, *directory = NULL;
	_cleanup_fd_ int dirfd = -1;
	char *rest, *name;
	struct stat st;
	int r = 0;

	if (layout->kind != CGROUP_V2)
		return 0;
	directory = tree_directory(layout->unified, path);
	dirfd = tree_open(directory, err);
	if (dirfd < 0 || bound(dirfd, most, err) < 0)
		return -1;
	if (fstat(dirfd, &st) == 0 && st.st_uid == owner)
		return 0;
	list = file_read(AT_FDCWD, LIST, LIST_MAX, NULL, NULL);
	if (!list)
		list = xstrdup(USUAL);
	for (rest = list; r == 0 && (name = strsep(&rest, "\n"));)
		if (*name && !strchr(name, '/'))
			r = give(dirfd, name, owner, 0);
	if (r == 0)
		r = give(dirfd, "", owner, AT_EMPTY_PATH);
	return r < 0 ? err_set(err, errno, "give cgroup %s to user %u", path, owner) : 0;
}
