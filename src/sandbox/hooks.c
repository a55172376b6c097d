/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs hooks: the state on their standard input, a time-out, and what they complain of. */
#include "sandbox/hooks.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define COMPLAINT_MAX 400 /* bytes of a hook's standard error that are kept */

extern char **environ;

static const char *output_files[2]; /* see hooks_output() */

void hooks_output(const char *out, const char *errors)
{
	output_files[0] = out;
	output_files[1] = errors;
}

struct run {
	const struct oci_hook *hook;
	const char *kind;
	pid_t pid;
	int pidfd;
	int errors; /* our end of its standard error */
	char complaint[COMPLAINT_MAX];
	size_t length;
};

/* A file and no pipe: the hook may read it when it likes, or never. */
static int make_input(const char *state, struct err *err)
{
	_cleanup_fd_ int fd = memfd_create("state", MFD_CLOEXEC);

	if (fd < 0 || fd_write_full(fd, state, strlen(state)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, errno, "write the state for a hook");
	return fd_steal(&fd);
}

/* Whoever would hear what it says is gone; its death was before we asked to be told of it. */
static bool is_orphan(int errors)
{
	struct pollfd heard = { .fd = errors };

	return poll(&heard, 1, 0) > 0 && (heard.revents & POLLERR);
}

/* The path of a startContainer hook is the container's: there, a file of the host has no name. */
static int open_output(const struct run *run, int which)
{
	const char *path = output_files[which];

	if (!path || str_eq(run->kind, "startContainer"))
		return -1;
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0600);
}

static _Noreturn void hook_main(const struct run *run, int input, int errors)
{
	const struct oci_hook *hook = run->hook;
	char *arguments[] = { hook->path, NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int out = open_output(run, 0), complaints = open_output(run, 1);

	process_reset_signals();
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (is_orphan(errors))
		_exit(126);
	if (dup2(input, 0) < 0 || dup2(out < 0 ? null : out, 1) < 0 ||
	    dup2(complaints < 0 ? errors : complaints, 2) < 0 ||
	    syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		_exit(126);
	execve(hook->path, hook->n_args ? hook->args : arguments,
	       hook->n_env ? hook->env : environ);
	dprintf(2, "%s", strerrordesc_np(errno));
	_exit(127);
}

static int launch(struct run *run, const char *state, struct err *err)
{
	_cleanup_fd_ int input = make_input(state, err), errors = -1;
	int pipe_ends[2];

	if (input < 0)
		return -1;
	if (pipe2(pipe_ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	run->errors = pipe_ends[0];
	errors = pipe_ends[1];
	run->pid = fork();
	if (run->pid == 0) {
		fd_replace(&run->errors, -1);
		hook_main(run, input, errors);
	}
	setpgid(run->pid, run->pid); /* whoever of the two comes first */
	if (run->pid < 0)
		return err_set(err, errno, "make a process");
	run->pidfd = proc_pidfd(run->pid);
	if (run->pidfd >= 0)
		return 0;
	err_set(err, errno, "watch a process");
	kill(run->pid, SIGKILL);
	proc_wait(run->pid);
	return -1;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Keeps the first bytes and reads on, so that the hook does not stand still. False at the end. */
static bool take_complaint(struct run *run)
{
	char bytes[4096];
	ssize_t n = read(run->errors, bytes, sizeof(bytes));
	size_t room = sizeof(run->complaint) - run->length;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	if ((size_t)n < room)
		room = (size_t)n;
	memcpy(run->complaint + run->length, bytes, room);
	run->length += room;
	return true;
}

/* Until the hook itself has ended, whatever it left running. False: it took too long. */
static bool watch(struct run *run)
{
	int64_t deadline = run->hook->has_timeout ? now_ms() + run->hook->timeout * 1000ll : -1;
	struct pollfd fds[2] = { { .fd = run->pidfd, .events = POLLIN },
				 { .fd = run->errors, .events = POLLIN } };

	for (;;) {
		int64_t left = deadline < 0 ? -1 : deadline - now_ms();

		if (deadline >= 0 && left <= 0)
			return false;
		if (poll(fds, 2, left > 60000 ? 60000 : (int)left) < 0)
			continue;
		if (fds[1].revents && !take_complaint(run))
			fds[1].fd = -1;
		else if (!fds[1].revents && fds[0].revents)
			return true;
	}
}

static int fail(const struct run *run, int status, const char *kind, struct err *err)
{
	char safe[2 * COMPLAINT_MAX];
	size_t length = run->length;

	while (length && (run->complaint[length - 1] == '\n' || run->complaint[length - 1] == ' '))
		length--;
	str_escape(run->complaint, length, safe, sizeof(safe));
	if (status < 0)
		err_set(err, 0, "%s hook %s: did not end in %d seconds", kind, run->hook->path,
			run->hook->timeout);
	else if (WIFSIGNALED(status))
		err_set(err, 0, "%s hook %s: killed by signal %d", kind, run->hook->path,
			WTERMSIG(status));
	else
		err_set(err, 0, "%s hook %s: exit status %d", kind, run->hook->path,
			WEXITSTATUS(status));
	return length ? err_hint(err, "it said: %s", safe) : -1;
}

static int run_one(const struct oci_hook *hook, const char *kind, const char *state,
		   struct err *err)
{
	struct run run = { .hook = hook, .kind = kind, .pid = -1, .pidfd = -1, .errors = -1 };
	int status = -1, r = launch(&run, state, err);

	if (r == 0) {
		bool ended = watch(&run);

		if (!ended)
			kill(-run.pid, SIGKILL); /* with what it started */
		while (waitpid(run.pid, &status, 0) < 0 && errno == EINTR)
			;
		if (!ended || status != 0)
			r = fail(&run, ended ? status : -1, kind, err);
	}
	fd_replace(&run.pidfd, -1);
	fd_replace(&run.errors, -1);
	return r;
}

int hooks_run(const struct oci_hook *hooks, size_t count, const char *kind, const char *state,
	      struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if (run_one(&hooks[i], kind, state, err) < 0)
			return -1;
	return 0;
}
