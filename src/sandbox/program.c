/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program to be executed: searched as execvp(3) does, in the PATH of the process to be. Why it
 * cannot be executed is said in the words that engines look for to tell 127 from 126.
 */
#include "sandbox/process.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <linux/audit.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_PATH "/bin:/usr/bin" /* confstr(_CS_PATH) */

int process_error(struct err *err, int code, const char *program)
{
	switch (code) {
	case ENOENT:
	case ENOTDIR:
		return err_set(err, ERR_PROGRAM_NOT_FOUND, "exec %s: no such file or directory",
			       program);
	case EACCES:
	case EISDIR:
	case EPERM:
		return err_set(err, ERR_PROGRAM_DENIED, "exec %s: permission denied", program);
	case ENOEXEC:
		return err_set(err, ERR_PROGRAM_DENIED,
			       "exec %s: exec format error: neither a program for this machine nor "
			       "a script with a #! line",
			       program);
	}
	return err_set(err, code, "exec %s", program);
}

/* Returns 0, or the errno that execve(2) would give. */
static int try_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? errno : 0;
}

static const char *find_path(const struct oci_process *process)
{
	for (size_t i = process->n_env; i-- > 0;) /* a later one takes the place of an earlier */
		if (str_starts_with(process->env[i], "PATH="))
			return process->env[i] + strlen("PATH=");
	return DEFAULT_PATH;
}

char *program_find(const struct oci_process *process, struct err *err)
{
	const char *name = process->args[0];
	_cleanup_free_ char *copy = NULL;
	int code, denied = 0;
	char *rest, *directory;

	if (strchr(name, '/') || !*name) {
		code = try_program(name);
		if (code == 0)
			return xstrdup(name);
		process_error(err, code, *name ? name : "''");
		if (err->code == ERR_PROGRAM_NOT_FOUND)
			err_hint(err, "the path is one in the container");
		return NULL;
	}
	copy = xstrdup(find_path(process));
	for (rest = copy; (directory = strsep(&rest, ":"));) {
		_cleanup_free_ char *path = xasprintf("%s/%s", *directory ? directory : ".", name);

		code = try_program(path);
		if (code == 0)
			return steal(path);
		if (code == EACCES)
			denied = code;
	}
	if (denied) {
		process_error(err, denied, name);
		return NULL;
	}
	err_set(err, ERR_PROGRAM_NOT_FOUND, "exec %s: executable file not found in $PATH", name);
	err_hint(err, "in the container that is %s", find_path(process));
	return NULL;
}

int program_check_filter(const struct seccomp_filter *filter, struct err *err)
{
	const struct seccomp_data call = { .nr = SYS_execve, .arch = AUDIT_ARCH_X86_64 };

	if (!filter->count ||
	    bpf_answers(filter->insns, filter->count, &call, false) & BPF_CAN_ALLOW)
		return 0;
	err_set(err, 0, "use linux.seccomp: it allows no execve(2), so that no program can begin");
	return err_hint(err, "give it a rule for execve with the action SCMP_ACT_ALLOW");
}

bool program_begun(pid_t pid, uint64_t start_time, struct err *err)
{
	int signal;

	if (!proc_ended_early(pid, start_time, &signal))
		return true;
	if (signal)
		err_set(err, 0, "it was killed by signal %d (%s) before its program began", signal,
			strsignal(signal));
	else
		err_set(err, 0, "it ended before its program began");
	/* With exit_group(2) denied, too, the C library has no other way out than a fault. */
	if (signal == SIGSYS || signal == SIGSEGV)
		err_hint(err, "does linux.seccomp allow execve, and exit_group for a reason to be "
			      "told?");
	return false;
}
