/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Removing a cgroup with all below it. The walk holds one descriptor and no stack frame a level,
 * so that no depth of nesting by a container can keep its cgroup from being removed.
 */
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cgroup/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

/* The names on the way down from the cgroup to where the walk is. */
struct walk {
	char **names;
	size_t depth;
};

static void walk_free(struct walk *walk)
{
	while (walk->depth)
		free(walk->names[--walk->depth]);
	free(walk->names);
}

static void nap(unsigned int *microseconds)
{
	struct timespec time = { .tv_nsec = *microseconds * 1000L };

	nanosleep(&time, NULL);
	if (*microseconds < 10000)
		*microseconds *= 2;
}

/* The name of some cgroup below, to be freed, or NULL. */
static char *first_child(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	char *name = NULL;

	if (!dir) {
		fd_close_pointer(&fd);
		return NULL;
	}
	while (!name && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			name = xstrdup(entry->d_name);
	closedir(dir);
	return name;
}

/* Says which process keeps a cgroup from going, and what that one is doing. */
static int blame(int parent, const char *name, const char *directory, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/cgroup.procs", name);
	_cleanup_free_ char *procs = file_read(parent, path, 1 << 20, NULL, NULL);
	_cleanup_free_ char *stat = NULL, *stat_path = NULL;
	int pid = procs ? atoi(procs) : 0;
	char command[128] = "", *end;

	if (!pid)
		return err_set(err, EBUSY, "remove cgroup %s", directory);
	stat_path = xasprintf("/proc/%d/stat", pid);
	stat = file_read(AT_FDCWD, stat_path, 4096, NULL, NULL);
	end = stat ? strrchr(stat, ')') : NULL;
	if (!end || !strchr(stat, '('))
		return err_set(err, EBUSY, "remove cgroup %s", directory);
	*end = '\0';
	str_escape(strchr(stat, '(') + 1, strlen(strchr(stat, '(') + 1), command, sizeof(command));
	err_set(err, EBUSY, "remove cgroup %s, in which process %d (%s, state %c) has not ended",
		directory, pid, command, end[1] ? end[2] : '?');
	if (end[1] && end[2] == 'D')
		err_hint(err, "it waits in the kernel, for a disk or a file server maybe, and ends "
			      "when that answers; delete again then");
	return -1;
}

static int remove_one(int parent, const char *name, const char *directory, uint64_t deadline,
		      bool kill, struct err *err)
{
	unsigned int pause = 50;

	while (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		if (errno != EBUSY)
			return err_set(err, errno, "remove cgroup %s", directory);
		if (tree_clock() >= deadline)
			return blame(parent, name, directory, err);
		if (kill) {
			_cleanup_free_ char *path = xasprintf("/proc/self/fd/%d/%s", parent, name);

			if (tree_signal(path, SIGKILL, err) < 0)
				return -1;
		}
		nap(&pause);
	}
	return 0;
}

/* Removes all below dirfd, the deepest first. */
static int remove_below(int *dirfd, struct walk *walk, const char *directory, uint64_t deadline,
			bool kill, struct err *err)
{
	for (;;) {
		char *name = first_child(*dirfd);

		if (name) {
			int child =
				openat(*dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (child < 0 && (errno != ENOENT || tree_clock() >= deadline)) {
				err_set(err, errno, "open cgroup %s below %s", name, directory);
				free(name);
				return -1;
			}
			if (child < 0) {
				free(name); /* removed meanwhile */
				continue;
			}
			walk->names = xrealloc(walk->names, walk->depth + 1, sizeof(char *));
			walk->names[walk->depth++] = name;
			fd_replace(dirfd, child);
		} else if (walk->depth) {
			_cleanup_free_ char *last = walk->names[--walk->depth];
			int parent = openat(*dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

			if (parent < 0)
				return err_set(err, errno, "go up from a cgroup below %s",
					       directory);
			fd_replace(dirfd, parent);
			if (remove_one(*dirfd, last, directory, deadline, kill, err) < 0)
				return -1;
		} else {
			return 0;
		}
	}
}

int tree_remove(const char *directory, uint64_t deadline, bool kill, struct err *err)
{
	_cleanup_(walk_free) struct walk walk = { 0 };
	_cleanup_fd_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "open cgroup %s", directory);
	if (remove_below(&fd, &walk, directory, deadline, kill, err) < 0)
		return -1;
	return remove_one(AT_FDCWD, directory, directory, deadline, kill, err);
}
