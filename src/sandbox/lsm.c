/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Security modules. AppArmor: the profile that execve(2) changes to, written to an attribute of
 * the process in the caller's own procfs (never the container's, which could be a fake).
 */
#include "sandbox/process.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "oci/config.h"

#include <fcntl.h>
#include <unistd.h>

static bool asks_profile(const struct oci_process *process)
{
	return process->apparmor_profile && *process->apparmor_profile;
}

int lsm_check(const struct oci_process *process, int proc, struct err *err)
{
	char enabled = 'N';
	_cleanup_fd_ int fd = -1;

	if (process->selinux_label && *process->selinux_label)
		return err_set(err, 0, "process.selinuxLabel: SELinux is not supported");
	if (!asks_profile(process))
		return 0;
	fd = open("/sys/module/apparmor/parameters/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &enabled, 1) != 1 || enabled != 'Y')
		return err_set(err, 0,
			       "process.apparmorProfile is '%s', but AppArmor is not enabled "
			       "on this machine",
			       process->apparmor_profile);
	return 0;
}

int lsm_apply(const struct oci_process *process, int proc, struct err *err)
{
	_cleanup_free_ char *text = NULL;

	if (!asks_profile(process))
		return 0;
	text = xasprintf("exec %s", process->apparmor_profile);
	if (file_write(proc, "self/attr/apparmor/exec", text, NULL) == 0 ||
	    file_write(proc, "self/attr/exec", text, err) == 0)
		return 0;
	err_wrap(err, "set the AppArmor profile %s", process->apparmor_profile);
	return err->code == ENOENT ? err_hint(err, "it is not loaded") : -1;
}
