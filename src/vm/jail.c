/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The jail. The order matters: namespaces and the root while there are capabilities, then ids, then
 * capabilities; a change of ids takes the parent-death signal away, so that is set at the end.
 */
#include "vm/jail.h"

#include "base/fd.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define CAP(name) (1ull << CAP_##name)

const char *const role_names[ROLES] = { "monitor", "vmm", "fsd", "diskd", "standin", "victim" };

/* fs/fsd.h says why fsd keeps what it keeps; the monitor ends the vmm, which is another user's. */
const struct role_reach role_reach[ROLES] = {
	[ROLE_MONITOR] = { CAP(KILL),
			   "the sockets of the container's clients, of the vmm and of fsd, the "
			   "network's table and the memory limit of its cgroup; no files, and no "
			   "process but those" },
	[ROLE_VMM] = { 0, "the guest's memory and processors, its streams and taps; an empty root "
			  "and a "
			  "user of its own, empty namespaces, which fsd and diskd share" },
	[ROLE_FSD] = { CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(CHOWN) | CAP(FSETID) | CAP(SETFCAP) |
			       CAP(SETUID) | CAP(SETGID),
		       "the files beneath the container's root and mounts, the guest's memory; an "
		       "empty root of its own, empty namespaces, which the vmm and diskd share" },
	[ROLE_DISKD] = { 0, "the container's disk images and block devices, the guest's memory; an "
			    "empty root and a user of its own, empty namespaces, which the vmm and "
			    "fsd share" },
	[ROLE_STANDIN] = { 0, "signals and window sizes to one process of the container" },
	[ROLE_VICTIM] = { 0, "the memory limit of the container's cgroup" },
};

int jail_leave_mounts(struct err *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, errno, "make a mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_set(err, errno, "make the mounts private");
	return 0;
}

int jail_change_root(int root, struct err *err)
{
	if (move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0)
		return err_set(err, errno, "enter the new root");
	/* The old root ends up on top of the new one, where it is taken off with all in it. */
	if (syscall(SYS_pivot_root, ".", ".") < 0) {
		if (chroot(".") < 0) /* from an initramfs there is no pivoting */
			return err_set(err, errno, "make the new root the root");
	} else if (umount2(".", MNT_DETACH) < 0) {
		return err_set(err, errno, "let go of the old root");
	}
	return chdir("/") < 0 ? err_set(err, errno, "enter the root") : 0;
}

/* A tmpfs that was never mounted anywhere else becomes the root. */
static int empty_root(struct err *err)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
	_cleanup_fd_ int root = -1;

	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(context, FSCONFIG_SET_STRING, "size", "4k", 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(err, errno, "make an empty tmpfs");
	root = fsmount(context, FSMOUNT_CLOEXEC,
		       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			       MOUNT_ATTR_NOEXEC);
	if (root < 0)
		return err_set(err, errno, "make a mount of an empty tmpfs");
	return jail_change_root(root, err);
}

static int drop_bounding_set(uint64_t keep, struct err *err)
{
	for (int cap = 0; cap < 64; cap++) {
		if ((keep & (1ull << cap)) || prctl(PR_CAPBSET_DROP, cap) == 0)
			continue;
		if (errno == EINVAL) /* beyond the last that this kernel knows */
			break;
		return err_set(err, errno, "drop capability %d from the bounding set", cap);
	}
	return 0;
}

/* A role that keeps capabilities stays root: setfsuid(2) is to work as for a root. */
static int change_ids(const struct jail *jail, struct err *err)
{
	/* An ordinary user cannot leave groups; there is no file that they would open. */
	if (jail->uid != JAIL_UID_OWN && setgroups(0, NULL) < 0)
		return err_set(err, errno, "drop the supplementary groups");
	if (jail->capabilities || jail->uid == JAIL_UID_OWN)
		return 0;
	if (setresgid(jail->uid, jail->uid, jail->uid) < 0 ||
	    setresuid(jail->uid, jail->uid, jail->uid) < 0)
		return err_set(err, errno, "become user %u", jail->uid);
	return 0;
}

static int set_capabilities(uint64_t keep, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, caps) < 0)
		return err_set(err, errno, "drop the capabilities");
	return 0;
}

static int set_limits(struct err *err)
{
	static const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_set(err, errno, "forbid core dumps");
	return 0;
}

static bool has_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, caps) < 0 || caps[0].permitted || caps[1].permitted;
}

/* The bounding set goes before the uid: dropping from it takes a capability. */
static int lock_privileges(uint64_t capabilities, struct err *err)
{
	/* An ordinary user's process has none, and without new privileges can get none. */
	if (!has_capabilities())
		return 0;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED) < 0)
		return err_set(err, errno, "take the privileges of root away");
	return drop_bounding_set(capabilities, err);
}

static int finish(enum role role, uint64_t capabilities, struct err *err)
{
	if (set_capabilities(capabilities, err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "forbid new privileges to the %s", role_names[role]);
	return 0;
}

int jail_restrict(enum role role, uint64_t capabilities, struct err *err)
{
	return lock_privileges(capabilities, err) < 0 ? -1 : finish(role, capabilities, err);
}

/*
 * To make a network namespace, and to take it down, is the dearest part of a jail. Roles of one
 * machine that share an empty one cannot meet in it: a filter lets none of them make a socket, nor
 * use one of an address, nor SysV IPC or message queues, nor change a name of the machine's. Where
 * the first one has become one that an ordinary user may not look at, the other gets its own.
 */
static int have_namespaces(const struct jail *jail, struct err *err)
{
	if (jail->namespaces_of == JAIL_BORN_IN ||
	    (jail->namespaces_of > 0 && setns(jail->namespaces_of, JAIL_NAMESPACES) == 0))
		return 0;
	if (unshare(JAIL_NAMESPACES) < 0)
		return err_set(err, errno, "make namespaces for the %s", role_names[jail->role]);
	return 0;
}

int jail_enter(const struct jail *jail, struct err *err)
{
	if (have_namespaces(jail, err) < 0)
		return -1;
	if (jail_leave_mounts(err) < 0 || empty_root(err) < 0 || set_limits(err) < 0 ||
	    lock_privileges(jail->capabilities, err) < 0 || change_ids(jail, err) < 0 ||
	    finish(jail->role, jail->capabilities, err) < 0)
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_set(err, errno, "set up the process of the %s", role_names[jail->role]);
	return 0;
}
