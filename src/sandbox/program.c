/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The program to be executed: searched as execvp(3) does, in the PATH of the process to be. Why it
 * cannot be executed is said in the words that engines look for to tell 127 from 126.
 */
#include "sandbox/process.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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
