/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies what is below a directory into another one, for tmpcopyup: owners, modes, times, links
 * and devices as they are. A symbolic link is never followed.
 */
#include "sandbox/setup.h"

#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define DEPTH_MAX 256 /* a descriptor pair each */

static int copy_level(int from, int to, int depth, struct err *err);

static int copy_file(int from, int to, const char *name, const struct stat *st, struct err *err)
{
	_cleanup_fd_ int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int out = -1;
	ssize_t n;

	if (in < 0)
		return err_set(err, errno, "open %s", name);
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_set(err, errno, "make the file %s", name);
	do
		n = sendfile(out, in, NULL, 1 << 30);
	while (n > 0);
	if (n < 0)
		return err_set(err, errno, "copy %s", name);
	return 0;
}

static int copy_link(int from, int to, const char *name, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_set(err, errno, "read the link %s", name);
	target[n] = '\0';
	if (symlinkat(target, to, name) < 0)
		return err_set(err, errno, "make the link %s", name);
	return 0;
}

static int copy_directory(int from, int to, const char *name, int depth, struct err *err)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_fd_ int in = openat(from, name, flags), out = -1;

	if (in < 0)
		return err_set(err, errno, "open the directory %s", name);
	if (mkdirat(to, name, 0700) < 0)
		return err_set(err, errno, "make the directory %s", name);
	out = openat(to, name, flags);
	if (out < 0)
		return err_set(err, errno, "open the directory %s", name);
	return copy_level(in, out, depth + 1, err);
}

static int copy_attributes(int to, const char *name, const struct stat *st, struct err *err)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "set the owner of %s", name);
	if (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0)
		return err_set(err, errno, "set the mode of %s", name);
	if (utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "set the times of %s", name);
	return 0;
}

static int copy_entry(int from, int to, const char *name, int depth, struct err *err)
{
	struct stat st;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, errno, "stat %s", name);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		r = copy_file(from, to, name, &st, err);
		break;
	case S_IFLNK:
		r = copy_link(from, to, name, err);
		break;
	case S_IFDIR:
		r = copy_directory(from, to, name, depth, err);
		break;
	default:
		r = mknodat(to, name, st.st_mode & (S_IFMT | 0777), st.st_rdev);
		if (r < 0)
			err_set(err, errno, "make the special file %s", name);
	}
	return r < 0 ? -1 : copy_attributes(to, name, &st, err);
}

static int copy_level(int from, int to, int depth, struct err *err)
{
	struct dirent *entry;
	int r = 0, fd = fcntl(from, F_DUPFD_CLOEXEC, 3);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return err_set(err, errno, "read a directory");
	if (depth > DEPTH_MAX)
		r = err_set(err, ELOOP, "copy directories %d deep", depth);
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			r = copy_entry(from, to, entry->d_name, depth, err);
	if (r == 0 && errno)
		r = err_set(err, errno, "read a directory");
	closedir(dir);
	return r;
}

int copy_tree(int from, int to, struct err *err)
{
	return copy_level(from, to, 0, err);
}
