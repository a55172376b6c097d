/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths below a root that somebody else controls. */
#include "base/path.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TRIES_MAX 1000

int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode, uint64_t resolve,
		      struct err *err)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd;
	int tries = 0;

	/*
	 * EAGAIN: a rename raced with a ".."; the kernel wants the walk to be done again. Not for
	 * ever: O_NONBLOCK gives it as well, for as long as somebody keeps a lease of the file.
	 */
	do
		fd = syscall(SYS_openat2, rootfd, path, &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < TRIES_MAX)));
	if (fd < 0)
		return err_set(err, errno, "open %s in the root file system", path);
	return (int)fd;
}

int path_not_made(const char *what, const char *path, struct err *err)
{
	int code = errno;

	err_set(err, code, "make %s %s in the root file system", what, path);
	/* Root of a user namespace is nobody in particular to files of ids that it does not have.
	 */
	if (code == EACCES || code == EOVERFLOW)
		err_hint(err, "the user that is root there may not write where it would be: have "
			      "it in the root file system beforehand, or map the ids that own it");
	return -1;
}

/* Opens one component below a directory inside the root, making it where it is missing. */
static int open_or_make(int rootfd, const char *prefix, bool directory, mode_t mode,
			struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(prefix);
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy, *parent = slash ? copy : ".";
	_cleanup_fd_ int dir = -1, made = -1;
	int fd;

	fd = path_open_in_root(rootfd, prefix, O_PATH | (directory ? O_DIRECTORY : 0), 0, 0, err);
	if (fd >= 0 || (err ? err->code : errno) != ENOENT)
		return fd;
	if (slash)
		*slash = '\0';
	dir = path_open_in_root(rootfd, slash == copy ? "/" : parent, O_PATH | O_DIRECTORY, 0, 0,
				err);
	if (dir < 0)
		return -1;
	if (directory) {
		if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
			return path_not_made("directory", prefix, err);
	} else {
		made = openat(dir, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_WRONLY,
			      mode);
		if (made < 0 && errno != EEXIST)
			return path_not_made("file", prefix, err);
	}
	return path_open_in_root(dir, name, O_PATH | O_NOFOLLOW | (directory ? O_DIRECTORY : 0), 0,
				 RESOLVE_NO_SYMLINKS, err);
}

int path_make_in_root(int rootfd, const char *path, bool directory, mode_t mode, struct err *err)
{
	_cleanup_free_ char *prefix = xstrdup(path);
	_cleanup_fd_ int fd = -1;
	struct stat st;
	size_t end = 0, length = strlen(path);

	while (length > 1 && prefix[length - 1] == '/')
		prefix[--length] = '\0';
	for (;;) {
		bool last;

		while (prefix[end] == '/')
			end++;
		end += strcspn(prefix + end, "/");
		last = prefix[end] == '\0';
		prefix[end] = '\0';
		fd_replace(&fd, open_or_make(rootfd, *prefix ? prefix : "/", directory || !last,
					     last ? mode : 0755, err));
		if (fd < 0)
			return -1;
		if (last)
			break;
		prefix[end] = '/';
	}
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "stat %s in the root file system", path);
	if (!directory && S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "make file %s in the root file system", path);
	return fd_steal(&fd);
}

bool path_is_clean(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
		if (*path == '/' && !*++path)
			return false;
	}
	return true;
}

static int remove_children(DIR *dir, struct err *err)
{
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return err_set(err, errno, "remove %s", entry->d_name);
		if (path_remove_tree(dirfd(dir), entry->d_name, err) < 0)
			return -1;
	}
	return 0;
}

int path_remove_tree(int parent, const char *name, struct err *err)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));
	DIR *dir;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "open %s", name);
	dir = fdopendir(fd);
	if (!dir) {
		err_set(err, errno, "read directory %s", name);
		close(fd);
		return -1;
	}
	r = remove_children(dir, err);
	closedir(dir);
	if (r < 0)
		return -1;
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_set(err, errno, "remove directory %s", name);
	return 0;
}
