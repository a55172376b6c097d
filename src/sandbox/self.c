/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs the program from a file that no container can write to. */
#include "sandbox/self.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define COPY_MAX (1u << 30) /* bytes a call */
#define SELF_EXE "/proc/self/exe"
#define SEALS	 (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

extern char **environ;

/* Ours, or the distribution's. To ask by the path opens no file, which may be far away. */
static int is_on_readonly_mount(void)
{
	struct statvfs fs;

	return statvfs(SELF_EXE, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

static int is_sealed(int self)
{
	int seals = fcntl(self, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

static int open_readonly_mount(int self)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	_cleanup_fd_ int tree =
		open_tree(self, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -1;
	return fd_steal(&tree);
}

static int open_sealed_copy(int self, struct err *err)
{
	_cleanup_fd_ int copy = memfd_create("moat", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	off_t offset = 0;
	ssize_t n;

	if (copy < 0)
		return err_set(err, errno, "make a memory file");
	do /* position and size together must not pass the largest offset */
		n = sendfile(copy, self, &offset, COPY_MAX);
	while (n > 0);
	if (n < 0 || fchmod(copy, 0500) < 0 || fcntl(copy, F_ADD_SEALS, SEALS) < 0)
		return err_set(err, errno, "copy our own program");
	return fd_steal(&copy);
}

int self_protect(char **argv, struct err *err)
{
	_cleanup_fd_ int self = -1, copy = -1;

	if (is_on_readonly_mount())
		return 0;
	self = open(SELF_EXE, O_RDONLY | O_CLOEXEC);
	if (self < 0)
		return err_set(err, errno, "open our own program");
	if (is_sealed(self))
		return 0;
	copy = open_readonly_mount(self);
	if (copy >= 0)
		syscall(SYS_execveat, copy, "", argv, environ, AT_EMPTY_PATH);
	fd_replace(&copy, open_sealed_copy(self, err));
	if (copy < 0)
		return -1;
	syscall(SYS_execveat, copy, "", argv, environ, AT_EMPTY_PATH);
	return err_set(err, errno, "run our own program from a protected copy");
}
