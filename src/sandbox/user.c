/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User, groups and umask of a process, and its home directory. */
#include "sandbox/process.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSWD_MAX (1u << 20)

int user_become(const struct oci_process *process, struct err *err)
{
	const struct oci_user *user = process->user;

	if (setgroups(user->n_additional_gids, user->additional_gids) < 0 &&
	    (errno != EPERM || user->n_additional_gids))
		return err_set(err, errno, "set the additional groups");
	/* The capabilities must outlive the change of user; execve(2) clears this. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "keep the capabilities");
	if (setresgid(user->gid, user->gid, user->gid) < 0) {
		err_set(err, errno, "become group %u", user->gid);
		return errno == EINVAL ? err_hint(err, "the user namespace does not map it") : -1;
	}
	if (setresuid(user->uid, user->uid, user->uid) < 0) {
		err_set(err, errno, "become user %u", user->uid);
		return errno == EINVAL ? err_hint(err, "the user namespace does not map it") : -1;
	}
	umask(user->has_umask ? (mode_t)user->umask : 0022);
	return 0;
}

/* The sixth field of the line whose third is the uid. */
static char *find_home(char *text, unsigned int uid)
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		char *fields[7] = { 0 };
		size_t count = 0;
		uint64_t number;

		while (line && count < ARRAY_LEN(fields))
			fields[count++] = strsep(&line, ":");
		if (count >= 6 && str_to_u64(fields[2], UINT32_MAX, &number) == 0 &&
		    number == uid && *fields[5] == '/')
			return xstrdup(fields[5]);
	}
	return NULL;
}

char *user_home(const struct oci_process *process, int rootfd)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_fd_ int fd = -1;
	struct stat st;
	char *home = NULL;

	for (size_t i = 0; i < process->n_env; i++)
		if (str_starts_with(process->env[i], "HOME="))
			return NULL;
	/* Non-blocking: it may be a fifo. */
	fd = path_open_in_root(rootfd, "etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0, NULL);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		text = fd_read_text(fd, PASSWD_MAX, NULL);
	if (text)
		home = find_home(text, process->user->uid);
	return home ? home : xstrdup("/");
}
