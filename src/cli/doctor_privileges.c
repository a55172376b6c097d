/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the caller may do: capabilities, and which namespaces it can make. Namespaces are tried, in
 * a child that ends at once: no table of versions, sysctls and filters would be as true.
 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct {
	cap_value_t value;
	enum verdict verdict;
	const char *name, *use;
} capabilities[] = {
	{ CAP_SYS_ADMIN, VERDICT_FAIL, "CAP_SYS_ADMIN", "namespaces and mounts cannot be made" },
	{ CAP_SETUID, VERDICT_FAIL, "CAP_SETUID", "processes cannot become a container's user" },
	{ CAP_SETGID, VERDICT_FAIL, "CAP_SETGID", "processes cannot take a container's groups" },
	{ CAP_SETPCAP, VERDICT_FAIL, "CAP_SETPCAP", "the bounding set cannot be narrowed" },
	{ CAP_DAC_OVERRIDE, VERDICT_WARN, "CAP_DAC_OVERRIDE",
	  "root file systems that belong to others cannot be prepared" },
	{ CAP_CHOWN, VERDICT_WARN, "CAP_CHOWN", "terminals cannot be given to a container's user" },
	{ CAP_MKNOD, VERDICT_WARN, "CAP_MKNOD", "device nodes are bind mounts of the host's" },
	{ CAP_KILL, VERDICT_WARN, "CAP_KILL", "processes of other users cannot be signalled" },
	{ CAP_NET_ADMIN, VERDICT_WARN, "CAP_NET_ADMIN", "network devices cannot be set up" },
	{ CAP_SYS_RESOURCE, VERDICT_WARN, "CAP_SYS_RESOURCE",
	  "a config.json that asks for resource limits above the present hard ones, or for a lower "
	  "oomScoreAdj, fails" },
};

static void check_capabilities(struct diagnosis *diagnosis)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t held;
	bool all = true;

	for (size_t i = 0; caps && i < ARRAY_LEN(capabilities); i++) {
		if (cap_get_flag(caps, capabilities[i].value, CAP_EFFECTIVE, &held) < 0 ||
		    held == CAP_SET)
			continue;
		all = false;
		found(diagnosis, capabilities[i].verdict, NEEDED_BY_ALL, "capabilities",
		      "run moat with it", "%s is missing: %s", capabilities[i].name,
		      capabilities[i].use);
	}
	if (caps && all)
		found(diagnosis, VERDICT_OK, 0, "capabilities", NULL, "all that moat needs");
	cap_free(caps);
}

/* What podman and docker ask for by themselves, where nobody has told them of less. */
static const struct {
	const char *name, *ulimit;
	__rlimit_resource_t resource;
	rlim_t asked;
} limits[] = {
	{ "open files", "nofile", RLIMIT_NOFILE, 1048576 },
	{ "processes", "nproc", RLIMIT_NPROC, 1048576 },
};

/* Podman lowers its own limit of processes, and so that of the runtime, to the largest pid. */
static rlim_t askable(__rlimit_resource_t resource, rlim_t own)
{
	struct err err;
	size_t size = 0;
	_cleanup_free_ char *text =
		file_read(AT_FDCWD, "/proc/sys/kernel/pid_max", 32, &size, &err);
	rlim_t pid_max = text ? strtoul(text, NULL, 10) : 0;

	return resource == RLIMIT_NPROC && pid_max && pid_max < own ? pid_max : own;
}

/* Without CAP_SYS_RESOURCE a container's hard limits are at most our own. */
static void check_limits(struct diagnosis *diagnosis)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t held = CAP_CLEAR;
	struct rlimit own;

	if (caps)
		cap_get_flag(caps, CAP_SYS_RESOURCE, CAP_EFFECTIVE, &held);
	cap_free(caps);
	for (size_t i = 0; held != CAP_SET && i < ARRAY_LEN(limits); i++) {
		_cleanup_free_ char *advice = NULL;

		if (getrlimit(limits[i].resource, &own) < 0 || own.rlim_max >= limits[i].asked)
			continue;
		advice = xasprintf("raise the hard limit, or have the engine ask for less (podman "
				   "and docker: --ulimit %s=%ju, or default_ulimits in "
				   "containers.conf)",
				   limits[i].ulimit,
				   (uintmax_t)askable(limits[i].resource, own.rlim_max));
		found(diagnosis, VERDICT_WARN, 0, "resource limits", advice,
		      "at most %ju %s: a config.json that asks for more, as engines' do (%ju), "
		      "fails without CAP_SYS_RESOURCE",
		      (uintmax_t)own.rlim_max, limits[i].name, (uintmax_t)limits[i].asked);
	}
}

static const struct {
	int flag;
	const char *name;
	bool optional;
} namespaces[] = {
	{ CLONE_NEWNS, "mount", false },
	{ CLONE_NEWPID, "pid", false },
	{ CLONE_NEWIPC, "ipc", false },
	{ CLONE_NEWUTS, "uts", false },
	{ CLONE_NEWNET, "network", false },
	{ CLONE_NEWCGROUP, "cgroup", false },
	{ 0x80 /* CLONE_NEWTIME */, "time", true },
};

/* A bit for each namespace that cannot be made; bit 7: not even the user namespace asked for. */
static int try_namespaces(bool in_user_namespace)
{
	int mask = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (in_user_namespace && unshare(CLONE_NEWUSER) < 0)
			_exit(0x80);
		for (size_t i = 0; i < ARRAY_LEN(namespaces); i++)
			if (unshare(namespaces[i].flag) < 0)
				mask |= 1 << i;
		_exit(mask);
	}
	return pid < 0 ? 0xff : proc_wait(pid);
}

static void check_namespaces(struct diagnosis *diagnosis, bool root)
{
	int mask = try_namespaces(!root);
	char have[128] = "", lack[128] = "";
	bool fatal = false;

	if (mask & 0x80)
		return; /* check_user_namespaces() has said why */
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		char *list = mask & 1 << i ? lack : have;
		size_t used = strlen(list);

		snprintf(list + used, sizeof(have) - used, "%s%s", used ? " " : "",
			 namespaces[i].name);
		fatal |= (mask & 1 << i) && !namespaces[i].optional;
	}
	if (*lack)
		found(diagnosis, fatal ? VERDICT_FAIL : VERDICT_WARN, NEEDED_BY_ALL, "namespaces",
		      fatal ? "use a kernel with these namespaces, as root, outside of a container"
			    : "only a config.json that asks for it fails",
		      "cannot make: %s (can make: %s)", lack, *have ? have : "none");
	else
		found(diagnosis, VERDICT_OK, 0, "namespaces", NULL, "%s", have);
}

static bool sysctl_is(const char *path, const char *value)
{
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, 64, NULL, NULL);

	if (!text)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return str_eq(text, value);
}

/*
 * Why an ordinary user cannot make a user namespace, as a sysctl to change; NULL: no such reason.
 */
static const char *user_namespace_obstacle(void)
{
	if (sysctl_is("/proc/sys/user/max_user_namespaces", "0"))
		return "sysctl user.max_user_namespaces=65536";
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
		return "sysctl kernel.unprivileged_userns_clone=1";
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		return "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor "
		       "profile for moat with userns";
	return NULL;
}

static void check_user_namespaces(struct diagnosis *diagnosis, bool root)
{
	const char *obstacle = user_namespace_obstacle();
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno & 0x7f : 0);
	errno = pid < 0 ? errno : proc_wait(pid);
	if (errno)
		found(diagnosis, root ? VERDICT_WARN : VERDICT_FAIL, NEEDED_BY_ALL,
		      "user namespaces", obstacle ? obstacle : "run moat outside of a container",
		      "cannot be made: %m");
	else if (obstacle && root)
		found(diagnosis, VERDICT_WARN, 0, "user namespaces", obstacle,
		      "work for root, not for ordinary users");
	else
		found(diagnosis, VERDICT_OK, 0, "user namespaces", NULL, "work");
}

void doctor_privileges(struct diagnosis *diagnosis)
{
	bool root = geteuid() == 0;

	if (root)
		check_capabilities(diagnosis);
	else
		found(diagnosis, VERDICT_OK, 0, "user", NULL,
		      "uid %u: a container needs a user namespace (moat spec --rootless)",
		      geteuid());
	check_limits(diagnosis);
	check_user_namespaces(diagnosis, root);
	check_namespaces(diagnosis, root);
}
