/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last steps before execve(2), for init and for processes that join later. */
#include "sandbox/process.h"
#include "sandbox/harden_private.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/memory_policy.h"
#include "oci/config.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

int process_open_proc(struct err *err)
{
	_cleanup_fd_ int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return err_set(err, errno, "open /proc");
	if (fs.f_type != PROC_SUPER_MAGIC)
		return err_set(err, 0, "/proc is not a proc file system");
	return fd_steal(&fd);
}

void process_reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL); /* KILL, STOP and the C library's own two refuse: as it is */
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int process_join_keyring(const char *id, struct err *err)
{
	_cleanup_free_ char *name = xasprintf("_ses.%s", id);

	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name) < 0 && errno != ENOSYS)
		return err_set(err, errno, "make a session keyring");
	return 0;
}

int process_set_oom_score(const struct oci_process *process, int proc, pid_t pid, struct err *err)
{
	char path[64], text[32];

	if (!process->has_oom_score_adj)
		return 0;
	snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
	snprintf(text, sizeof(text), "%d", process->oom_score_adj);
	if (file_write(proc, path, text, err) == 0)
		return 0;
	err_wrap(err, "set process.oomScoreAdj to %s", text);
	return err->code == EACCES ? err_hint(err, "lowering it takes CAP_SYS_RESOURCE") : -1;
}

static int set_personality(const struct oci_personality *config, struct err *err)
{
	if (!config)
		return 0;
	if (personality(str_eq(config->domain, "LINUX32") ? PER_LINUX32 : PER_LINUX) < 0)
		return err_set(err, errno, "set the personality to %s", config->domain);
	return 0;
}

/*
 * The working directory must lie in the root: getcwd(2) marks one that does not, which a path
 * through a leaked descriptor would give ("/proc/self/fd/7").
 */
static int check_cwd(const char *cwd, struct err *err)
{
	char path[PATH_MAX];
	long n = syscall(SYS_getcwd, path, sizeof(path));

	if (n < 0 && errno == ERANGE) /* deeper than a path can say, but inside */
		return 0;
	if (n < 0)
		return err_set(err, errno, "read the working directory %s", cwd);
	if (path[0] != '/')
		return err_set(err, 0,
			       "the working directory %s is outside of the root file system", cwd);
	return 0;
}

static int enter_cwd(const char *cwd, struct err *err)
{
	if (chdir(cwd) < 0) {
		err_set(err, errno, "enter the container's working directory %s", cwd);
		return err_hint(err, "process.cwd of config.json names it, or --cwd of moat exec");
	}
	return check_cwd(cwd, err);
}

static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/*
 * The host's null device is a file of a mount that is not in the container, which CRIU would miss.
 */
static void use_own_null(int fd)
{
	_cleanup_fd_ int own = open("/dev/null", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (own >= 0 && fstat(own, &st) == 0 && is_null(&st))
		dup3(own, fd, 0);
}

/*
 * A user other than root must be able to open its streams anew (/dev/stdout). What is not ours to
 * change stays as it is.
 */
static void own_stream(int fd, uid_t uid)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return;
	if (is_null(&st))
		use_own_null(fd);
	if (st.st_uid == uid)
		return;
	if (S_ISCHR(st.st_mode) && !isatty(fd))
		return; /* /dev/null is everybody's */
	if (fchown(fd, uid, (gid_t)-1) < 0)
		return;
}

void process_give_streams(const int stdio[3], uint32_t owner)
{
	struct stat st;

	for (int i = 0; i < 3; i++)
		if (stdio[i] >= 0 && fstat(stdio[i], &st) == 0 && S_ISFIFO(st.st_mode) &&
		    fchown(stdio[i], owner, owner) < 0)
			continue; /* the container cannot open it anew, and works otherwise */
}

static int take_terminal(int terminal, struct err *err)
{
	if (ioctl(terminal, TIOCSCTTY, 0) < 0)
		return err_set(err, errno, "make the terminal the controlling one");
	for (int i = 0; i < 3; i++)
		if (dup3(terminal, i, 0) < 0)
			return err_set(err, errno, "make the terminal a standard stream");
	return 0;
}

/* stdio[i] may be any of 0, 1, 2 in another place: first out of the way, then to their places. */
static int take_streams(const struct process_plan *plan, struct err *err)
{
	int moved[3];

	if (plan->terminal >= 0)
		return take_terminal(plan->terminal, err);
	if (plan->stdio[0] == 0 && plan->stdio[1] == 1 && plan->stdio[2] == 2) {
		for (int i = 0; i < 3; i++)
			if (fd_set_cloexec(i, false) < 0)
				return err_set(err, errno, "use descriptor %d", i);
		return 0;
	}
	for (int i = 0; i < 3; i++) {
		moved[i] = fcntl(plan->stdio[i], F_DUPFD_CLOEXEC, 3);
		if (moved[i] < 0)
			return err_set(err, errno, "use standard stream %d", i);
	}
	for (int i = 0; i < 3; i++) {
		if (dup3(moved[i], i, 0) < 0)
			return err_set(err, errno, "make standard stream %d", i);
		close(moved[i]);
	}
	return 0;
}

/* CAP_SYS_ADMIN lasts until the filter is loaded, where that needs it. */
static uint64_t capability_for_filter(const struct process_plan *plan)
{
	bool needed = plan->seccomp->count && !plan->process->no_new_privileges;

	return needed ? 1ull << CAP_SYS_ADMIN : 0;
}

int process_become(struct process_plan *plan, struct err *err)
{
	const struct oci_process *process = plan->process;
	const char *cwd = process->cwd;
	int entered;

	if (take_streams(plan, err) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		own_stream(i, process->user->uid);
	/*
	 * Nothing of ours may be left open in the program: not a directory of the host above all.
	 */
	if (syscall(SYS_close_range, 3 + plan->preserve_fds, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_set(err, errno, "mark descriptors to be closed");
	if (plan->linux_ && (set_personality(plan->linux_->personality, err) < 0 ||
			     memory_policy_apply(plan->linux_->memory_policy, err) < 0))
		return -1;
	if (lsm_apply(process, plan->proc, err) < 0 || rlimits_apply(process, err) < 0 ||
	    scheduling_apply(process, err) < 0)
		return -1;
	/* Root may enter what the user may not, and on a root-squashed file system the reverse. */
	entered = enter_cwd(cwd, err);
	if (entered < 0 && err->code != EACCES)
		return -1;
	if (capabilities_bound(plan->capabilities, err) < 0 ||
	    user_become(process, plan->keep_groups, err) < 0)
		return -1;
	/*
	 * Read by others in the pid namespace it would tell of the host: until execve(2) it is not.
	 */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "guard the process");
	if (capabilities_apply(plan->capabilities, capability_for_filter(plan), err) < 0)
		return -1;
	if (entered < 0 && enter_cwd(cwd, err) < 0)
		return -1;
	if (process->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "set no_new_privs");
	plan->program = program_find(process, err);
	return plan->program ? 0 : -1;
}

/* A variable that is there twice has its last value, whatever the program would make of two. */
static char **make_environment(const struct process_plan *plan)
{
	const struct oci_process *process = plan->process;
	char **env = xcalloc(process->n_env + 2, sizeof(*env));
	size_t count = 0;

	for (size_t i = 0; i < process->n_env; i++) {
		size_t name = strcspn(process->env[i], "="), j = 0;

		while (j < count && (strncmp(env[j], process->env[i], name) != 0 ||
				     (env[j][name] != '=' && env[j][name] != '\0')))
			j++;
		env[j] = process->env[i];
		count += j == count;
	}
	if (plan->home)
		env[count] = xasprintf("HOME=%s", plan->home);
	return env;
}

int process_wall(struct process_plan *plan, struct err *err)
{
	int listener;

	if (!plan->hardening || plan->walled)
		return 0;
	plan->walled = true;
	if (wall_enter(plan->hardening, err) < 0)
		return -1;
	return seccomp_filter_load(plan->ceiling, &listener, err);
}

int process_filter(struct process_plan *plan, struct err *err)
{
	int listener = -1, r;

	if (process_wall(plan, err) < 0)
		return -1;
	if (!plan->seccomp->count || plan->filtered)
		return 0;
	r = seccomp_filter_load(plan->seccomp, &listener, err);
	if (plan->listener->slot)
		listener_offer(plan->listener,
			       r < 0 ? -(err->code ? err->code : EINVAL) : listener);
	plan->filtered = r == 0;
	if (r < 0 || !capability_for_filter(plan))
		return r;
	return capabilities_apply(plan->capabilities, 0, err);
}

int process_execute(struct process_plan *plan, struct err *err)
{
	char **env = make_environment(plan);

	if (process_filter(plan, err) < 0)
		return -1;
	execve(plan->program, plan->process->args, env);
	process_error(err, errno, plan->process->args[0]);
	if (err->code == ERR_PROGRAM_NOT_FOUND) /* program_find() has seen the file */
		err_hint(err, "what runs it, a script's #! line or a program's ld.so, is not "
			      "in the container");
	return -1;
}
