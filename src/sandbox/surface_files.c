/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the kernel's own file systems that a container can open for writing. A child of ours
 * joins the container as a process of it would, with no more rights than one, and asks access(2):
 * it opens nothing but directories of those file systems, and writes nothing.
 */
#include "sandbox/surface.h"

#include "sandbox/capabilities.h"
#include "sandbox/namespaces.h"

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"

#include <dirent.h>
#include <limits.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#define DEPTH_MAX 12
#define PATHS_MAX (1u << 20) /* bytes of all paths */

static bool is_kernels(const struct statfs *fs)
{
	switch ((unsigned long)fs->f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case BPF_FS_MAGIC:
	case PSTOREFS_MAGIC:
	case EFIVARFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
		return true;
	}
	return false;
}

/* Of a process's directory only the plain files, and of all processes only the first. */
static bool skip(const char *path, const char *name)
{
	if (str_eq(path, "/proc"))
		return (*name >= '0' && *name <= '9' && !str_eq(name, "1")) ||
		       str_eq(name, "self") || str_eq(name, "thread-self");
	return str_eq(path, "/proc/1") &&
	       (str_eq(name, "task") || str_eq(name, "fd") || str_eq(name, "fdinfo") ||
		str_eq(name, "map_files") || str_eq(name, "ns") || str_eq(name, "net"));
}

static void report(FILE *out, const char *path, const char *name)
{
	bool process = str_starts_with(path, "/proc/1") && (!path[7] || path[7] == '/');

	if (ftell(out) < (long)PATHS_MAX)
		fprintf(out, "%s%s/%s%c", process ? "/proc/[pid]" : "", process ? path + 7 : path,
			name, 0);
}

/*
 * What covers a file, as a mask does, is not the kernel's; a mode without a "w" takes no writing.
 */
static bool is_writable(int dir, dev_t device, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       st.st_dev == device && (st.st_mode & 0222) &&
	       faccessat(dir, name, W_OK, AT_EACCESS) == 0;
}

static void walk(int parent, const char *name, const char *path, int depth, FILE *out)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct statfs fs;
	struct stat st;

	if (!dir) {
		fd_close_pointer(&fd);
		return;
	}
	/* What is not the kernel's is not looked at. */
	while (depth <= DEPTH_MAX && fstatfs(fd, &fs) == 0 && is_kernels(&fs) &&
	       fstat(fd, &st) == 0 && (entry = readdir(dir))) {
		char below[PATH_MAX];

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    skip(path, entry->d_name) ||
		    snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >=
			    (int)sizeof(below))
			continue;
		if (entry->d_type == DT_DIR)
			walk(fd, entry->d_name, below, depth + 1, out);
		else if (is_writable(fd, st.st_dev, entry->d_name))
			report(out, path, entry->d_name);
	}
	closedir(dir);
}

static int join(int proc, pid_t pid, int pidfd, uint64_t capabilities, struct err *err)
{
	struct capability_sets sets = {
		.bounding = capabilities,
		.effective = capabilities,
		.permitted = capabilities,
	};
	uint64_t different;

	if (namespaces_compare(proc, pid, &different, err) < 0)
		return -1;
	different &= ~(uint64_t)CLONE_NEWPID; /* holds for children only, and is not needed */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    (different && setns(pidfd, (int)different) < 0))
		return err_set(err, errno, "join the namespaces of process %d", (int)pid);
	if ((different & CLONE_NEWUSER) && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
		return err_set(err, errno, "become root of the user namespace");
	if (capabilities_bound(&sets, err) < 0)
		return -1;
	return capabilities_apply(&sets, 0, err);
}

/* Starts where kernel file systems are mounted; those elsewhere are found by mountinfo. */
static _Noreturn void look(int proc, pid_t pid, int pidfd, uint64_t capabilities, int to)
{
	_cleanup_free_ char *mounts_path = xasprintf("%d/mountinfo", (int)pid);
	int fd = openat(proc, mounts_path, O_RDONLY | O_CLOEXEC);
	FILE *mounts = fd < 0 ? NULL : fdopen(fd, "r"), *out = fdopen(to, "w");
	struct err err = { 0 };
	char line[8192], place[PATH_MAX];

	if (!mounts || !out || join(proc, pid, pidfd, capabilities, &err) < 0)
		_exit(EXIT_FAILURE);
	walk(AT_FDCWD, "/proc", "/proc", 0, out);
	walk(AT_FDCWD, "/sys", "/sys", 0, out);
	while (fgets(line, sizeof(line), mounts))
		if (sscanf(line, "%*s %*s %*s %*s %4095s", place) == 1 &&
		    !str_starts_with(place, "/proc") && !str_starts_with(place, "/sys"))
			walk(AT_FDCWD, place, place, 0, out);
	_exit(fclose(out) != 0);
}

static void collect(const char *bytes, size_t size, char ***paths, size_t *count)
{
	*paths = xcalloc(1, sizeof(char *));
	*count = 0;
	for (size_t i = 0; i < size; i += strlen(bytes + i) + 1) {
		*paths = xrealloc(*paths, *count + 2, sizeof(char *));
		(*paths)[(*count)++] = xstrdup(bytes + i);
		(*paths)[*count] = NULL;
	}
}

int surface_kernel_files(pid_t pid, uint64_t capabilities, char ***paths, size_t *count,
			 struct err *err)
{
	_cleanup_fd_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int pidfd = proc_pidfd(pid), ours = -1;
	_cleanup_free_ char *bytes = NULL;
	size_t size;
	pid_t child;
	int ends[2];

	if (proc < 0 || pidfd < 0 || fd_socketpair(SOCK_STREAM, ends) < 0)
		return err_set(err, errno, "look into process %d", (int)pid);
	ours = ends[0];
	child = fork();
	if (child == 0) {
		close(ours);
		look(proc, pid, pidfd, capabilities, ends[1]);
	}
	close(ends[1]);
	if (child < 0)
		return err_set(err, errno, "make a process");
	bytes = fd_read_text(ours, 2 * PATHS_MAX, &size);
	if (proc_wait(child) != 0 || !bytes)
		return err_set(err, 0, "look at the kernel files of process %d: cannot join it",
			       (int)pid);
	collect(bytes, size, paths, count);
	return 0;
}
