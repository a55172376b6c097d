/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A procfs of our own, without what the kernel can be changed through. */
#include "fs/procfs.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/mount.h>

int procfs_open_fds(struct err *err)
{
	_cleanup_fd_ int context = fsopen("proc", FSOPEN_CLOEXEC), mount = -1;
	int fd;

	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(err, errno, "make a procfs for the file server");
	mount = fsmount(context, FSMOUNT_CLOEXEC,
			MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				MOUNT_ATTR_NOEXEC);
	if (mount < 0)
		return err_set(err, errno, "mount a procfs for the file server");
	fd = openat(mount, "self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open self/fd in a procfs of our own") : fd;
}
