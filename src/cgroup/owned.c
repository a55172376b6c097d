/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose a cgroup is. */
#include "cgroup/owned.h"

#include "base/fd.h"
#include "cgroup/cgroup.h"

#include <fcntl.h>

#define MARK "cgroup"

int cgroup_create_owned(const char *path, const struct oci_linux_resources *resources, int state_fd,
			struct err *err)
{
	_cleanup_fd_ int mark = -1;

	if (!path)
		return 0;
	if (cgroup_create(path, resources, err) < 0)
		return -1;
	mark = openat(state_fd, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (mark >= 0)
		return 0;
	err_set(err, errno, "mark cgroup %s as the container's", path);
	cgroup_remove(path, NULL);
	return -1;
}

int cgroup_remove_owned(const char *path, int state_fd, bool known, struct err *err)
{
	if (!path)
		return 0;
	if (!known && faccessat(state_fd, MARK, F_OK, 0) < 0)
		cgroup_remove_empty(path);
	else if (cgroup_remove(path, err) < 0)
		return -1;
	unlinkat(state_fd, MARK, 0);
	return 0;
}
