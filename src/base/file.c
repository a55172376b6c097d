/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole small files. */
#include "base/file.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char *read_opened(int fd, const char *path, size_t max, size_t *length, struct err *err)
{
	char *text;

	if (fd < 0)
		return err_set(err, errno, "open %s", path), NULL;
	text = fd_read_text(fd, max, length);
	if (!text)
		err_set(err, errno, "read %s", path);
	return text;
}

char *file_read(int dirfd, const char *path, size_t max, size_t *length, struct err *err)
{
	_cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

	return read_opened(fd, path, max, length, err);
}

char *file_read_regular(int dirfd, const char *path, size_t max, size_t *length, struct err *err)
{
	_cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(err, 0, "read %s: it is not a regular file", path), NULL;
	return read_opened(fd, path, max, length, err);
}

int file_write(int dirfd, const char *path, const char *text, struct err *err)
{
	_cleanup_fd_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	size_t size = strlen(text);
	ssize_t n;

	if (fd < 0)
		return err_set(err, errno, "open %s", path);
	do
		n = write(fd, text, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, errno, "write '%.80s' to %s", text, path);
	if ((size_t)n != size)
		return err_set(err, EIO, "write '%.80s' to %s", text, path);
	return 0;
}

int file_replace(int dirfd, const char *path, const void *data, size_t size, mode_t mode,
		 struct err *err)
{
	_cleanup_free_ char *temporary = xasprintf("%s.%d.tmp", path, (int)getpid());
	_cleanup_fd_ int fd =
		openat(dirfd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0)
		return err_set(err, errno, "create %s", path);
	if (fd_write_full(fd, data, size) < 0) {
		err_set(err, errno, "write %s", path);
		unlinkat(dirfd, temporary, 0);
		return -1;
	}
	if (renameat(dirfd, temporary, dirfd, path) < 0) {
		err_set(err, errno, "replace %s", path);
		unlinkat(dirfd, temporary, 0);
		return -1;
	}
	return 0;
}
