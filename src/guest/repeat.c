/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux's virtio-fs has no way to be told that a file has changed (6.12), so that those who watch
 * it with inotify(7) or fanotify(7) would never hear. But the kernel tells them what it is asked to
 * do itself: so this process asks it for the same, and fsd, which knows that it is done already,
 * agrees. It is a process of its own, as each of its calls may wait for a disk of the host, or for
 * one who writes the file just now.
 */
#include "guest/repeat.h"

#include "base/fd.h"
#include "base/log.h"
#include "fs/changes.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE 65536u

/* What happens meanwhile is told in one: a file that is written all the time costs little. */
#define PAUSE_NS 50000000L

/* Never through a symlink, which the container may have made, nor to another file system. */
static int open_directory(int top, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve =
					RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };

	return (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
}

/* In another group the calls would do what they say. */
static bool become(uint32_t gid)
{
	setfsgid(gid);
	return (uint32_t)setfsgid((gid_t)-1) == gid;
}

static void touch(int fd, const struct stat *st, bool attributes)
{
	/* To the kernel, a time of modification alone is a new content (fsnotify_change()). */
	const struct timespec times[2] = { attributes ? st->st_atim
						      : (struct timespec){ .tv_nsec = UTIME_OMIT },
					   st->st_mtim };

	utimensat(fd, "", times, AT_EMPTY_PATH);
}

/* The file that was known by this name: its content is another's now, and the name is. */
static void repeat_gone(int dir, const char *name, mode_t type, bool replaced)
{
	_cleanup_fd_ int fd = -1;
	struct stat st;

	if (!become(S_ISDIR(type) && !replaced ? CHANGES_GID_GONE_DIRECTORY : CHANGES_GID_GONE))
		return;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (!become(CHANGES_GID_GONE) || fd < 0 || fstat(fd, &st) < 0)
		return;
	if (replaced && S_ISREG(st.st_mode))
		touch(fd, &st, false);
	unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static void repeat_made(int dir, const char *name, mode_t type)
{
	if (!become(CHANGES_GID_MADE))
		return;
	if (S_ISDIR(type))
		mkdirat(dir, name, 0700);
	else if (S_ISLNK(type))
		(void)!symlinkat(name, dir, name);
	else
		mknodat(dir, name, type | 0600, 0);
}

static void repeat_present(int dir, const char *name, uint32_t kinds)
{
	_cleanup_fd_ int fd = -1, writer = -1;
	char path[32];
	struct stat st;

	setfsgid(0);
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !become(CHANGES_GID_PRESENT) || fstat(fd, &st) < 0)
		return;
	if (kinds & CHANGE_ATTRIBUTES)
		touch(fd, &st, true);
	if (!S_ISREG(st.st_mode))
		return;
	if (kinds & CHANGE_CONTENT)
		touch(fd, &st, false);
	if (!(kinds & CHANGE_CLOSED))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	writer = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void repeat(int top, const struct change_record *record, char *path)
{
	char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	_cleanup_fd_ int dir = -1;

	if (slash)
		*slash = '\0';
	/* On the way, too, may be what is gone by now: were it denied, its name could not go. */
	if (!become(CHANGES_GID_GONE))
		return;
	dir = open_directory(top, slash ? path : ".");
	if (dir < 0)
		return;
	if (record->kinds & CHANGE_GONE)
		repeat_gone(dir, name, record->type & S_IFMT, record->kinds & CHANGE_MADE);
	if (record->kinds & CHANGE_MADE)
		repeat_made(dir, name, record->type & S_IFMT);
	if (record->kinds & (CHANGE_CONTENT | CHANGE_ATTRIBUTES | CHANGE_CLOSED))
		repeat_present(dir, name, record->kinds);
	setfsgid(0);
}

void repeat_run(const char *trees)
{
	static _Alignas(struct change_record) char buffer[READ_SIZE];
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	_cleanup_fd_ int top = open(trees, O_PATH | O_DIRECTORY | O_CLOEXEC), file = -1;
	ssize_t n;

	if (top < 0)
		return;
	file = openat(top, CHANGES_NAME, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return;
	while ((n = read(file, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at + (ssize_t)sizeof(struct change_record) < n;) {
			struct change_record *record = (void *)(buffer + at);
			char *path = (char *)(record + 1);

			if (record->size <= sizeof(*record) || record->size > n - at)
				return;
			path[record->size - sizeof(*record) - 1] = '\0';
			repeat(top, record, path);
			at += record->size;
		}
		nanosleep(&pause, NULL);
	}
}

/* Of the agent; 0: not started. */
static pid_t process;

void repeat_start(const char *trees)
{
	if (process)
		return;
	process = fork();
	if (process < 0)
		log_warning("what the host changes is not told of: %s", strerror(errno));
	if (process)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "moat-repeat");
	/* Others see the end of a stream only when nobody has it any more. */
	fd_close_except(STDERR_FILENO + 1, NULL, 0);
	repeat_run(trees);
	_exit(0);
}

void repeat_stop(const char *trees)
{
	_cleanup_fd_ int top = -1;

	if (process <= 0)
		return;
	top = open(trees, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top >= 0)
		utimensat(top, CHANGES_NAME, NULL, 0);
}
