/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Containers of an ordinary user (user_namespaces(7), newuidmap(1)). */
#include "sandbox/rootless.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define NESTED_MAX 32 /* pid namespaces within each other (pid_namespaces(7)) */

bool rootless(void)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;

	if (caps)
		cap_get_flag(caps, CAP_SYS_ADMIN, CAP_EFFECTIVE, &value);
	cap_free(caps);
	return value == CAP_CLEAR;
}

static bool is_own(const struct oci_id_mapping *maps, size_t count, unsigned int id)
{
	return count == 1 && maps[0].size == 1 && maps[0].host_id == id;
}

static int write_own(int proc, pid_t pid, const char *file, const struct oci_id_mapping *map,
		     struct err *err)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	snprintf(text, sizeof(text), "%u %u 1\n", map->container_id, map->host_id);
	return file_write(proc, path, text, err);
}

/* Says on standard error what it does not like, which is a better reason than its status. */
static _Noreturn void execute(const char *program, char **args, int errors)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(errors, 2) < 0)
		_exit(126);
	execvp(program, args);
	_exit(errno == ENOENT ? 127 : 126);
}

static int explain(const char *program, const char *subids, int status, char *said, struct err *err)
{
	char safe[512];

	said[strcspn(said, "\n")] = '\0';
	if (status == 127) {
		err_set(err, 0, "map ids other than the caller's own: there is no %s", program);
		return err_hint(err, "install the package uidmap");
	}
	err_set(err, 0, "%s: %s", program,
		*said ? str_escape(said, strlen(said), safe, sizeof(safe)) : "it failed");
	return err_hint(err, "the ids must be granted in %s", subids);
}

static int run(const char *program, const char *subids, char **args, struct err *err)
{
	char said[256] = "";
	int pipe_fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0)
		execute(program, args, pipe_fds[1]);
	close(pipe_fds[1]);
	if (pid < 0) {
		close(pipe_fds[0]);
		return err_set(err, errno, "run %s", program);
	}
	n = fd_read_full(pipe_fds[0], said, sizeof(said) - 1);
	close(pipe_fds[0]);
	said[n < 0 ? 0 : n] = '\0';
	status = proc_wait(pid);
	return status == 0 ? 0 : explain(program, subids, status, said, err);
}

static int map_by_program(const char *program, const char *subids, pid_t pid,
			  const struct oci_id_mapping *maps, size_t count, struct err *err)
{
	char **args = xcalloc(3 * count + 3, sizeof(*args));
	size_t n = 0;
	int r;

	args[n++] = xstrdup(program);
	args[n++] = xasprintf("%d", (int)pid);
	for (size_t i = 0; i < count; i++) {
		args[n++] = xasprintf("%u", maps[i].container_id);
		args[n++] = xasprintf("%u", maps[i].host_id);
		args[n++] = xasprintf("%u", maps[i].size);
	}
	r = run(program, subids, args, err);
	for (size_t i = 0; i < n; i++)
		free(args[i]);
	free(args);
	return r;
}

int rootless_map_ids(const struct oci_linux *config, int proc, pid_t pid, struct err *err)
{
	char path[64];

	if (is_own(config->uid_mappings, config->n_uid_mappings, geteuid())) {
		if (write_own(proc, pid, "uid_map", config->uid_mappings, err) < 0)
			return -1;
	} else if (map_by_program("newuidmap", "/etc/subuid", pid, config->uid_mappings,
				  config->n_uid_mappings, err) < 0) {
		return -1;
	}
	if (!is_own(config->gid_mappings, config->n_gid_mappings, getegid()))
		return map_by_program("newgidmap", "/etc/subgid", pid, config->gid_mappings,
				      config->n_gid_mappings, err);
	snprintf(path, sizeof(path), "%d/setgroups", (int)pid);
	if (file_write(proc, path, "deny", err) < 0)
		return -1;
	return write_own(proc, pid, "gid_map", config->gid_mappings, err);
}

/* Whether a process is in the pid namespace, or in one below it. */
static bool is_inside(int dirfd, const char *name, const struct stat *namespace)
{
	_cleanup_free_ char *path = xasprintf("%s/ns/pid", name);
	_cleanup_fd_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	for (int i = 0; fd >= 0 && i < NESTED_MAX; i++) {
		if (fstat(fd, &st) < 0)
			return false;
		if (st.st_ino == namespace->st_ino && st.st_dev == namespace->st_dev)
			return true;
		fd_replace(&fd, ioctl(fd, NS_GET_PARENT));
	}
	return false;
}

int rootless_processes(pid_t init, pid_t **pids, size_t *count, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/ns/pid", (int)init);
	struct stat its, own;
	uint64_t pid;
	DIR *proc;

	*pids = NULL;
	*count = 0;
	if (stat(path, &its) < 0 || stat("/proc/self/ns/pid", &own) < 0)
		return err_set(err, errno, "look at the pid namespace of process %d", (int)init);
	if (its.st_ino == own.st_ino)
		return err_set(err, 0,
			       "list the processes: the container has neither a cgroup nor a pid "
			       "namespace of its own to find them by");
	proc = opendir("/proc");
	if (!proc)
		return err_set(err, errno, "read /proc");
	for (struct dirent *entry; (entry = readdir(proc));) {
		if (str_to_u64(entry->d_name, INT_MAX, &pid) < 0 ||
		    !is_inside(dirfd(proc), entry->d_name, &its))
			continue;
		*pids = xrealloc(*pids, *count + 1, sizeof(**pids));
		(*pids)[(*count)++] = (pid_t)pid;
	}
	closedir(proc);
	return 0;
}
