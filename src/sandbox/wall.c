/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Landlock and core scheduling for level sandbox.
 *
 * Landlock (userspace-api/landlock) grants rights by hierarchy: it cannot say "all but /proc/sys",
 * so that read-only mounts keep kernel files from being written. What it adds: no device files
 * anywhere; no change of any mount, whatever capability a process finds; nobody looks into a
 * process of the container but its own kin; and no way to sockets and processes outside where a
 * namespace is shared.
 */
#include "sandbox/harden_private.h"
#include "sandbox/surface.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since ABI 6; headers of Linux 6.1 have a shorter structure, without them. */
#ifdef LANDLOCK_SCOPE_SIGNAL
#define SCOPE_ABSTRACT_UNIX_SOCKET LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
#define SCOPE_SIGNAL		   LANDLOCK_SCOPE_SIGNAL
#else
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ull << 0)
#define SCOPE_SIGNAL		   (1ull << 1)
#endif
#define ABI_REFER 2
#define ABI_SCOPE 6

struct ruleset {
	uint64_t access_fs, access_net, scoped;
};

/* Without a rule for it any ruleset forbids renames and links from one directory to another. */
static int allow_renaming(int ruleset)
{
	_cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_REFER,
		.parent_fd = root,
	};

	if (root < 0)
		return -1;
	return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static long landlock_abi(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

size_t surface_landlock(const struct hardening *hardening, const char **names)
{
	static const char *const always[] = { "make-device-nodes", "change-mounts",
					      "trace-other-processes" };
	long abi = landlock_abi();
	size_t n = 0;

	if (abi < ABI_REFER)
		return 0;
	for (; n < ARRAY_LEN(always); n++)
		names[n] = always[n];
	if (abi >= ABI_SCOPE && hardening->scope_sockets)
		names[n++] = "abstract-sockets-outside";
	if (abi >= ABI_SCOPE && hardening->scope_signals)
		names[n++] = "signals-outside";
	return n;
}

int wall_enter(const struct hardening *hardening, struct err *err)
{
	struct ruleset ruleset = {
		.access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
			     LANDLOCK_ACCESS_FS_REFER,
		.scoped = (hardening->scope_sockets ? SCOPE_ABSTRACT_UNIX_SOCKET : 0) |
			  (hardening->scope_signals ? SCOPE_SIGNAL : 0),
	};
	size_t size = sizeof(ruleset.access_fs);
	_cleanup_fd_ int fd = -1;
	long abi = landlock_abi();

	if (abi < 0 && errno != ENOSYS && errno != EOPNOTSUPP)
		return err_set(err, errno, "ask for Landlock");
	if (abi < ABI_REFER) /* the first one lets nobody rename into another directory */
		return 0;
	if (abi >= ABI_SCOPE && ruleset.scoped)
		size = sizeof(ruleset);
	fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, size, 0);
	if (fd < 0 || allow_renaming(fd) < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_set(err, errno, "put the process under Landlock");
	return 0;
}

/* Without threads that share a core there is nothing to be kept apart. */
static bool shares_cores(void)
{
	_cleanup_free_ char *text =
		file_read(AT_FDCWD, "/sys/devices/system/cpu/smt/active", 16, NULL, NULL);

	return text && *text == '1';
}

static int core_schedule(unsigned long command, pid_t pid, unsigned long scope, struct err *err)
{
	if (prctl(PR_SCHED_CORE, command, pid, scope, 0) == 0)
		return 0;
	if (errno == ENODEV || errno == EINVAL) {
		if (errno == EINVAL && shares_cores())
			log_debug("this kernel cannot keep a core to one container");
		return 0;
	}
	return err_set(err, errno, "keep other processes off the container's cores");
}

int wall_core_make(struct err *err)
{
	return core_schedule(PR_SCHED_CORE_CREATE, 0, PR_SCHED_CORE_SCOPE_THREAD, err);
}

int wall_core_join(pid_t pid, struct err *err)
{
	return core_schedule(PR_SCHED_CORE_SHARE_FROM, pid, PR_SCHED_CORE_SCOPE_THREAD, err);
}

static uint64_t core_cookie(pid_t pid)
{
	uint64_t cookie = 0;

	/* 0 also where there is nothing to be asked: then nobody has any. */
	(void)prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, pid, PR_SCHED_CORE_SCOPE_THREAD, &cookie);
	return cookie;
}

const char *surface_cores(pid_t pid)
{
	uint64_t cookie, its = core_cookie(pid);

	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, PR_SCHED_CORE_SCOPE_THREAD, &cookie) < 0)
		return "none";
	return its && its != cookie ? "own" : "shared";
}
