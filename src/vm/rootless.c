/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MicroVMs of an ordinary user. What the monitor does for its jails (namespaces, detached mounts)
 * takes CAP_SYS_ADMIN: an ordinary user has it in a user namespace of its own. There every id is
 * itself, so that files and the container's id maps mean what they mean outside.
 */
#include "vm/rootless.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "oci/config.h"
#include "vm/jail.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define MAP_MAX 65536u

bool rootless_caller(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, caps) < 0 ||
	       !(caps[0].effective & (1u << CAP_SYS_ADMIN));
}

/* Files are the user's, and so have to be root's of the container. */
static bool maps_own(const struct oci_id_mapping *maps, size_t count, unsigned int id)
{
	return count == 1 && maps[0].size == 1 && maps[0].host_id == id;
}

static int check_maps(const struct oci_linux *linux_, struct err *err)
{
	if (linux_ && maps_own(linux_->uid_mappings, linux_->n_uid_mappings, geteuid()) &&
	    maps_own(linux_->gid_mappings, linux_->n_gid_mappings, getegid()))
		return 0;
	err_set(err, 0,
		"linux.uidMappings, linux.gidMappings: a microVM of an ordinary user takes a user "
		"namespace with the user's own id alone, %u:%u",
		geteuid(), getegid());
	return err_hint(err, "moat spec --rootless writes one; for more ids run moat in a user "
			     "namespace that has them, as podman does and podman unshare");
}

static int map_to_itself(const char *file, unsigned int id, struct err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%u %u 1", id, id);
	return file_write(AT_FDCWD, file, text, err);
}

int rootless_enter(const struct oci_linux *linux_, struct err *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (!rootless_caller())
		return 0;
	if (check_maps(linux_, err) < 0)
		return -1;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		err_set(err, errno, "make a user namespace for the microVM's processes");
		return err_hint(err,
				"the host must let ordinary users make some: see "
				"user.max_user_namespaces, kernel.unprivileged_userns_clone and "
				"kernel.apparmor_restrict_unprivileged_userns in sysctl(8)");
	}
	if (map_to_itself("/proc/self/uid_map", uid, err) < 0 ||
	    file_write(AT_FDCWD, "/proc/self/setgroups", "deny", err) < 0)
		return -1;
	return map_to_itself("/proc/self/gid_map", gid, err);
}

bool rootless_one_way(void)
{
	_cleanup_fd_ int network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int owner = network < 0 ? -1 : ioctl(network, NS_GET_USERNS);

	return owner < 0 || rootless_caller();
}

static int join_user(pid_t pid, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/ns/user", (int)pid);
	_cleanup_fd_ int user = open(path, O_RDONLY | O_CLOEXEC);

	if (user < 0 || setns(user, CLONE_NEWUSER) < 0)
		return err_set(err, errno, "enter the container's user namespace");
	return 0;
}

int rootless_join(pid_t pid, int network, struct err *err)
{
	if (rootless_caller() && join_user(pid, err) < 0)
		return -1;
	if (setns(network, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter the container's network namespace");
	return 0;
}

/* Whether a map has the id; *last gets the greatest that it has, *count how many there are. */
static bool has_id(const char *file, unsigned int id, unsigned int *last, unsigned int *count)
{
	_cleanup_free_ char *text = file_read(AT_FDCWD, file, MAP_MAX, NULL, NULL);
	unsigned int first, host, size;
	char *rest = text, *line;
	bool found = false;

	*last = *count = 0;
	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%u %u %u", &first, &host, &size) != 3 || size == 0)
			continue;
		found = found || (id >= first && id - first < size);
		*count = *count + size < *count ? UINT32_MAX : *count + size;
		*last = first + size - 1 > *last ? first + size - 1 : *last;
	}
	return found;
}

uid_t rootless_jail_uid(uid_t wanted)
{
	unsigned int last_uid, last_gid, uids, gids;
	bool uid = has_id("/proc/self/uid_map", wanted, &last_uid, &uids);
	bool gid = has_id("/proc/self/gid_map", wanted, &last_gid, &gids);

	if (uid && gid)
		return wanted;
	/* The last one of the user's ids is hardly ever anybody's. */
	if (uids > 1 && gids > 1 && last_uid == last_gid)
		return last_uid;
	return JAIL_UID_OWN;
}
