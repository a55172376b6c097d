/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One cgroup in one hierarchy: making it, and the processes in it and below. What lies below was
 * made by the container, which may have nested it as deep as it liked.
 */
#include "cgroup/tree.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define PROCS_MAX (16u << 20)
#define DEPTH_MAX 128 /* each level holds a descriptor and a stack frame */

char *tree_directory(const char *mount, const char *path)
{
	return xasprintf("%s%s%s", mount, path[0] == '/' ? "" : "/", path);
}

uint64_t tree_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int tree_open(const char *directory, struct err *err)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_set(err, errno, "open cgroup %s", directory) : fd;
}

static int make_parents(const char *mount, const char *directory, struct err *err)
{
	_cleanup_free_ char *path = xstrdup(directory);

	for (char *p = path + strlen(mount) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "make cgroup %s", path);
		*p = '/';
	}
	return 0;
}

/* The cgroup is there: what a crash left, what an administrator prepared, or somebody else's. */
static int make_again(const char *directory, struct err *err)
{
	int n = tree_signal(directory, 0, err);

	if (n < 0)
		return -1;
	if (n > 0) {
		err_set(err, 0, "make cgroup %s: it exists and has processes in it", directory);
		return err_hint(err, "each container needs a linux.cgroupsPath of its own");
	}
	if (tree_remove(directory, tree_clock(), false, err) < 0)
		return err && (err->code == EACCES || err->code == EPERM) ? 0 : -1;
	if (mkdir(directory, 0755) < 0)
		return err_set(err, errno, "make cgroup %s", directory);
	return 0;
}

int tree_make(const char *mount, const char *directory, bool *parents, struct err *err)
{
	if (mkdir(directory, 0755) == 0)
		return 0;
	if (errno == ENOENT) {
		if (make_parents(mount, directory, err) < 0)
			return -1;
		*parents = true;
		if (mkdir(directory, 0755) == 0)
			return 0;
	}
	if (errno == EEXIST)
		return make_again(directory, err);
	return err_set(err, errno, "make cgroup %s", directory);
}

/* What is done with each process. */
struct visit {
	int signal; /* sent to it; 0: none */
	bool list;  /* its pid is added to pids */
	pid_t *pids;
	size_t count;
};

/* Visits the processes of one cgroup. Returns their number, or -1. */
static int visit_one(int dirfd, struct visit *visit, struct err *err)
{
	_cleanup_fd_ int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	int n = 0;

	if (fd >= 0)
		text = fd_read_text(fd, PROCS_MAX, NULL);
	/* Removed meanwhile, or threaded: then the processes are listed further up. */
	if (!text && (errno == ENOENT || errno == ENODEV || errno == EOPNOTSUPP))
		return 0;
	if (!text)
		return err_set(err, errno, "read cgroup.procs");
	for (rest = text; (line = strsep(&rest, "\n"));) {
		pid_t pid = (pid_t)strtol(line, NULL, 10);

		if (!*line)
			continue;
		n++; /* 0: a process of another pid namespace, which no signal of ours reaches */
		if (visit->signal && pid > 0 && kill(pid, visit->signal) < 0 && errno != ESRCH)
			return err_set(err, errno, "send signal %d to process %d", visit->signal,
				       (int)pid);
		if (visit->list) {
			visit->pids = xrealloc(visit->pids, visit->count + 1, sizeof(pid_t));
			visit->pids[visit->count++] = pid;
		}
	}
	return n;
}

/* Takes over dirfd. */
static int visit_below(int dirfd, struct visit *visit, int depth, struct err *err)
{
	DIR *dir = fdopendir(dirfd);
	struct dirent *entry;
	int total, n = 0;

	if (!dir) {
		close(dirfd);
		return err_set(err, errno, "list a cgroup");
	}
	total = visit_one(dirfd, visit, err);
	while (total >= 0 && n >= 0 && (entry = readdir(dir))) {
		int child;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (depth == DEPTH_MAX) {
			n = err_set(err, ELOOP, "look into cgroup %s", entry->d_name);
			break;
		}
		child = openat(dirfd, entry->d_name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0)
			continue; /* removed meanwhile */
		n = visit_below(child, visit, depth + 1, err);
		total += n > 0 ? n : 0;
	}
	closedir(dir);
	return n < 0 ? -1 : total;
}

int tree_signal(const char *directory, int signal, struct err *err)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n;
	struct visit visit = { .signal = signal };

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(err, errno, "open cgroup %s", directory);
	n = visit_below(fd, &visit, 0, err);
	return n < 0 ? err_wrap(err, "signal the processes of cgroup %s", directory) : n;
}

int tree_processes(const char *directory, pid_t **pids, size_t *count, struct err *err)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct visit visit = { .list = true };

	if (fd < 0)
		return err_set(err, errno, "open cgroup %s", directory);
	if (visit_below(fd, &visit, 0, err) < 0) {
		free(visit.pids);
		return err_wrap(err, "list the processes of cgroup %s", directory);
	}
	*pids = visit.pids;
	*count = visit.count;
	return 0;
}

int tree_wait_event(int dirfd, const char *line, uint64_t deadline)
{
	_cleanup_fd_ int fd = openat(dirfd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[256];

	if (fd < 0)
		return -1;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		uint64_t now = tree_clock();

		if (n < 0)
			return -1;
		text[n] = '\0';
		if (strstr(text, line))
			return 0;
		if (now >= deadline) {
			errno = ETIMEDOUT;
			return -1;
		}
		poll(&p, 1, (int)(deadline - now));
	}
}
