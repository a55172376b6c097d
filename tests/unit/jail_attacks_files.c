/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks on files, sockets and mounts of the host. */
#include "jail_attacks.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

ATTACK(open_file)
{
	return CALL(SYS_open, s->secret, O_RDONLY);
}

ATTACK(open_file_at)
{
	return CALL(SYS_openat, AT_FDCWD, s->secret, O_RDONLY, 0);
}

ATTACK(open_file_above)
{
	char path[200];

	snprintf(path, sizeof(path), "../../../../..%s", s->secret);
	return CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
}

ATTACK(open_root_of_another)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", s->victim);
	return CALL(SYS_openat, AT_FDCWD, path, O_PATH, 0);
}

ATTACK(open_device)
{
	return CALL(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
}

/* The root, which is all that there is in a jail: whoever may open files can open that one. */
static int open_root(int flags)
{
	return CALL(SYS_openat, AT_FDCWD, "/", flags | O_DIRECTORY, 0);
}

ATTACK(open_for_a_program)
{
	return open_root(O_RDONLY);
}

ATTACK(open_with_signals)
{
	return open_root(O_RDONLY | O_CLOEXEC | O_ASYNC);
}

/* What is opened at a directory's descriptor is one component, which is no link. */
static int open_below(int flags)
{
	long dir = syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);

	return dir < 0 || CALL(SYS_openat, dir, ".", flags, 0);
}

ATTACK(open_through_a_link)
{
	return open_below(O_PATH | O_CLOEXEC);
}

ATTACK(open_data_below)
{
	return open_below(O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

ATTACK(make_file)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/made", s->directory);
	return CALL(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0600);
}

ATTACK(write_state)
{
	return CALL(SYS_openat, s->state_fd, "state.json", O_CREAT | O_WRONLY, 0600);
}

ATTACK(remove_state)
{
	return CALL(SYS_unlinkat, s->state_fd, "remove", 0);
}

ATTACK(make_device)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/device", s->directory);
	return CALL(SYS_mknod, path, S_IFCHR | 0600, 0x103);
}

static int reach(int family, const void *address, socklen_t size)
{
	long fd = syscall(SYS_socket, family, SOCK_STREAM, 0);

	return fd < 0 || CALL(SYS_connect, fd, address, size);
}

ATTACK(connect_path)
{
	return reach(AF_UNIX, &s->path, sizeof(s->path));
}

ATTACK(connect_hidden)
{
	return reach(AF_UNIX, &s->hidden, sizeof(s->hidden));
}

ATTACK(connect_address)
{
	return reach(AF_INET, &s->address, sizeof(s->address));
}

ATTACK(raw_socket)
{
	return CALL(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

ATTACK(mount_tmpfs)
{
	return CALL(SYS_mount, "tmpfs", s->directory, "tmpfs", 0, NULL) ||
	       CALL(SYS_umount2, s->directory, MNT_DETACH);
}

ATTACK(mount_new)
{
	return CALL(SYS_fsopen, "tmpfs", 0);
}

ATTACK(copy_mount)
{
	return CALL(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */);
}

ATTACK(change_root)
{
	return CALL(SYS_chroot, "/");
}

ATTACK(unshare_mounts)
{
	return CALL(SYS_unshare, CLONE_NEWNS);
}

ATTACK(open_handle)
{
	struct {
		struct file_handle handle;
		char bytes[128];
	} file = { .handle = { .handle_bytes = 128 } };
	int mount;

	return CALL(SYS_name_to_handle_at, AT_FDCWD, s->secret, &file, &mount, 0) ||
	       CALL(SYS_open_by_handle_at, AT_FDCWD, &file, O_RDONLY);
}

const struct attack attacks_on_files[] = {
	WALLED(open_file),
	WALLED(open_file_at),
	WALLED(open_file_above),
	WALLED(open_root_of_another),
	WALLED(open_device),
	FILTERED(open_for_a_program),
	FILTERED(open_with_signals),
	FILTERED(open_through_a_link),
	FILTERED(open_data_below),
	WALLED(make_file),
	WALLED(write_state), /* the monitor holds the directory, the others do not */
	WALLED(remove_state),
	WALLED(make_device),
	WALLED(connect_path),
	WALLED(connect_hidden),
	WALLED(connect_address),
	WALLED(raw_socket),
	WALLED(mount_tmpfs),
	WALLED(mount_new),
	WALLED(copy_mount),
	WALLED(change_root),
	WALLED(unshare_mounts),
	WALLED_MAYBE(open_handle),
	{ 0 },
};
