/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's kernel: the system calls that moat needs, seccomp, the security modules. A call is
 * tried with arguments that it must refuse: ENOSYS means that it is not there, be it for the
 * kernel's age or for a filter that somebody put around us.
 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
	long number;
	long arguments[4];
	const char *name, *since;
} calls[] = {
	{ SYS_pidfd_send_signal, { -1 }, "pidfd_send_signal", "5.1" },
	{ SYS_open_tree, { -1 }, "open_tree", "5.2" },
	{ SYS_move_mount, { -1, 0, -1 }, "move_mount", "5.2" },
	{ SYS_fsopen, { 0, -1 }, "fsopen", "5.2" },
	{ SYS_pidfd_open, { -1 }, "pidfd_open", "5.3" },
	{ SYS_clone3, { 0, 0 }, "clone3", "5.3" },
	{ SYS_openat2, { -1, 0, 0, 0 }, "openat2", "5.6" },
	{ SYS_pidfd_getfd, { -1, -1, -1 }, "pidfd_getfd", "5.6" },
	{ SYS_close_range, { 1, 0 }, "close_range", "5.9" },
	{ SYS_mount_setattr, { -1, 0, -1, 0 }, "mount_setattr", "5.12" },
};

static void check_calls(struct diagnosis *diagnosis)
{
	struct utsname name;
	char missing[256] = "";
	size_t used = 0;

	uname(&name);
	for (size_t i = 0; i < ARRAY_LEN(calls) && used < sizeof(missing); i++) {
		const long *a = calls[i].arguments;

		if (syscall(calls[i].number, a[0], a[1], a[2], a[3], 0) < 0 && errno == ENOSYS)
			used += (size_t)snprintf(missing + used, sizeof(missing) - used,
						 "%s%s (Linux %s)", used ? ", " : "", calls[i].name,
						 calls[i].since);
	}
	if (used)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_ALL, "kernel",
		      "use Linux 5.12 or later, and no seccomp filter around moat",
		      "%s %s lacks %s", name.sysname, name.release, missing);
	else
		found(diagnosis, VERDICT_OK, 0, "kernel", NULL,
		      "%s %s has all the system calls "
		      "that moat needs",
		      name.sysname, name.release);
}

static void check_seccomp(struct diagnosis *diagnosis)
{
	static const struct {
		uint32_t action;
		const char *name;
	} actions[] = {
		{ SECCOMP_RET_ERRNO, "ERRNO" },
		{ SECCOMP_RET_KILL_PROCESS, "KILL_PROCESS" },
		{ SECCOMP_RET_LOG, "LOG" },
		{ SECCOMP_RET_USER_NOTIF, "NOTIFY" },
	};
	char missing[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_LEN(actions); i++)
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i].action) < 0)
			used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s",
						 used ? ", " : "", actions[i].name);
	if (used)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_ALL, "seccomp",
		      "use a kernel with CONFIG_SECCOMP_FILTER", "filters lack %s", missing);
	else
		found(diagnosis, VERDICT_OK, 0, "seccomp", NULL, "filters and user notification");
}

/* The list of active modules is in securityfs, which is not mounted everywhere. */
static void check_modules(struct diagnosis *diagnosis)
{
	_cleanup_free_ char *list =
		file_read(AT_FDCWD, "/sys/kernel/security/lsm", 4096, NULL, NULL);
	long landlock =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (list && *list)
		found(diagnosis, VERDICT_OK, 0, "security modules", NULL, "%s", list);
	else if (access("/sys/fs/selinux/status", F_OK) == 0)
		found(diagnosis, VERDICT_OK, 0, "security modules", NULL, "selinux");
	else if (access("/sys/module/apparmor", F_OK) == 0)
		found(diagnosis, VERDICT_OK, 0, "security modules", NULL, "apparmor");
	else
		found(diagnosis, VERDICT_OK, 0, "security modules", NULL,
		      "none found (securityfs is not mounted, which would list them)");
	if (landlock > 0)
		found(diagnosis, VERDICT_OK, 0, "landlock", NULL, "version %ld", landlock);
	else
		found(diagnosis, VERDICT_WARN, 0, "landlock",
		      "boot with lsm=landlock,... on a kernel with CONFIG_SECURITY_LANDLOCK; moat "
		      "does without where it must",
		      "not available");
}

void doctor_kernel(struct diagnosis *diagnosis)
{
	check_calls(diagnosis);
	check_seccomp(diagnosis);
	check_modules(diagnosis);
}
