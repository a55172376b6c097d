/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User, groups and umask of a process, and HOME. */
#include "sandbox/identity.h"
#include "sandbox/process.h"

#include "base/str.h"
#include "oci/config.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_ID UINT32_MAX

int user_become(const struct oci_process *process, bool keep_groups, struct err *err)
{
	const struct oci_user *user = process->user;

	/* To setresuid(2) it means "as it is", which is root. */
	if (user->uid == NO_ID || user->gid == NO_ID)
		return err_set(err, 0, "process.user: %u is nobody's number", NO_ID);
	if (!keep_groups && setgroups(user->n_additional_gids, user->additional_gids) < 0 &&
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

char *user_home(const struct oci_process *process, int rootfd)
{
	for (size_t i = 0; i < process->n_env; i++)
		if (str_starts_with(process->env[i], "HOME="))
			return NULL;
	return identity_home(rootfd, process->user->uid);
}
