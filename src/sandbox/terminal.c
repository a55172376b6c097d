/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The container's terminal: a pair of the container's own devpts, whose master goes to the console
 * socket. The other end is opened through the master (TIOCGPTPEER) and never by a path, which the
 * image could have replaced.
 */
#include "sandbox/process.h"

#include "base/fd.h"
#include "base/path.h"
#include "oci/config.h"
#include "sandbox/setup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static int open_master(int rootfd, struct err *err)
{
	_cleanup_fd_ int master = path_open_in_root(rootfd, "dev/pts/ptmx", O_RDWR | O_NOCTTY, 0,
						    RESOLVE_NO_SYMLINKS, err);
	struct statfs fs;
	int unlock = 0;

	if (master < 0)
		return err_hint(err, "a terminal needs a mount of type devpts at /dev/pts");
	if (fstatfs(master, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)
		return err_set(err, 0, "/dev/pts/ptmx is not of a devpts");
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_set(err, errno, "unlock the terminal");
	return fd_steal(&master);
}

static int bind_console(int rootfd, int terminal, struct err *err)
{
	_cleanup_fd_ int dev = -1, onto = -1, tree = -1;
	struct stat st;

	dev = path_open_in_root(rootfd, "dev", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS, err);
	if (dev < 0)
		return -1;
	onto = openat(dev, "console", O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0620);
	if (onto < 0 && errno == EEXIST)
		onto = openat(dev, "console", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (onto < 0 || fstat(onto, &st) < 0)
		return err_set(err, errno, "make /dev/console");
	if (S_ISLNK(st.st_mode))
		return err_set(err, 0, "/dev/console in the root file system is a symbolic link");
	tree = mount_clone(terminal, false, "the terminal", err);
	return tree < 0 ? -1 : mount_attach(tree, onto, "/dev/console", err);
}

int terminal_open(const struct oci_process *process, int rootfd, int console_socket, bool console,
		  struct err *err)
{
	static const char name[] = "/dev/pts/ptmx";
	const struct oci_console_size *size = process->console_size;
	_cleanup_fd_ int master = open_master(rootfd, err), terminal = -1;

	if (master < 0)
		return -1;
	terminal = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal < 0)
		return err_set(err, errno, "open the terminal");
	if (size) {
		struct winsize ws = { .ws_row = (unsigned short)size->height,
				      .ws_col = (unsigned short)size->width };

		if (ioctl(master, TIOCSWINSZ, &ws) < 0)
			return err_set(err, errno, "set the terminal's size");
	}
	if (console && bind_console(rootfd, terminal, err) < 0)
		return -1;
	if (fd_send(console_socket, name, sizeof(name) - 1, &master, 1) < 0)
		return err_set(err, errno, "send the terminal to the console socket");
	return fd_steal(&terminal);
}
