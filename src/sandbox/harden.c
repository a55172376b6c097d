/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What level sandbox refuses. A container that asks for less than it gets is no surprise to
 * anybody; one that asks for what it cannot have is told so, and what would allow it.
 */
#include "sandbox/harden_private.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/settings.h"

#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* The ceiling. All of these only count in the container's own user namespace. */
static const struct {
	int number;
	bool given; /* else left out without a word: engines ask for it in every container */
	const char *reason;
} known[] = {
	{ CAP_CHOWN, true, "package managers, entry points that hand a volume to their user" },
	{ CAP_DAC_OVERRIDE, true, "root inside is used to reading every file of its image" },
	{ CAP_FOWNER, true, "the same, for modes and times" },
	{ CAP_FSETID, true, "the same, for set-id bits" },
	{ CAP_KILL, true, "a supervisor signals children that took another user" },
	{ CAP_SETGID, true, "dropping privileges" },
	{ CAP_SETUID, true, "dropping privileges" },
	{ CAP_SETPCAP, true, "dropping privileges" },
	{ CAP_SETFCAP, true, "unpacking packages; under no_new_privs such files give nothing" },
	{ CAP_NET_BIND_SERVICE, true, "port 80" },
	{ CAP_SYS_CHROOT, true, "daemons that lock themselves up" },
	{ CAP_MKNOD, false, "a user namespace cannot make devices" },
	{ CAP_NET_RAW, false, "raw sockets forge packets of others, and are much kernel code" },
	{ CAP_AUDIT_WRITE, false, "writes to the host's audit log" },
};

static const struct {
	const char *kind, *permission;
} host_namespaces[] = {
	{ "network", "hostNetwork" },
	{ "pid", "hostPID" },
	{ "ipc", "hostIPC" },
	{ "uts", "hostUTS" },
};

static const struct {
	unsigned int major, minor;
} usual_devices[] = {
	{ 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 }, { 1, 9 }, { 5, 0 }, { 5, 2 },
};

/* File systems in which the kernel shows and takes settings of the whole machine. */
static const long kernel_filesystems[] = {
	PROC_SUPER_MAGIC, SYSFS_MAGIC,	  DEBUGFS_MAGIC,  TRACEFS_MAGIC,      SECURITYFS_MAGIC,
	BPF_FS_MAGIC,	  PSTOREFS_MAGIC, EFIVARFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
};

bool harden_allows(const struct moat_settings *settings, const char *permission)
{
	for (size_t i = 0; i < settings->sandbox->n_allow; i++)
		if (str_eq(settings->sandbox->allow[i], permission))
			return true;
	return false;
}

/* Whether a character device is one of those that every container has. */
static bool is_usual_device(unsigned int major, unsigned int minor)
{
	if (major >= 136 && major <= 143) /* terminals of devpts */
		return true;
	for (size_t i = 0; i < ARRAY_LEN(usual_devices); i++)
		if (usual_devices[i].major == major && usual_devices[i].minor == minor)
			return true;
	return false;
}

static uint64_t extra_capabilities(const struct moat_settings *settings)
{
	uint64_t set = 0;
	cap_value_t value;

	for (size_t i = 0; i < settings->sandbox->n_capabilities; i++)
		if (cap_from_name(settings->sandbox->capabilities[i], &value) == 0 && value < 64)
			set |= 1ull << value;
	return set;
}

uint64_t harden_capabilities(const struct moat_settings *settings)
{
	uint64_t set = extra_capabilities(settings);

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].given)
			set |= 1ull << known[i].number;
	return set;
}

static int refuse_capability(char *const *names, size_t count, uint64_t accepted, struct err *err)
{
	cap_value_t value;

	for (size_t i = 0; i < count; i++)
		if (cap_from_name(names[i], &value) == 0 && value < 64 &&
		    !(accepted & 1ull << value))
			return err_set(
				err, 0,
				"level sandbox: %.64s is more than a process may have here: "
				"do not ask for it, or list it as one of sandbox.capabilities "
				"in the operator's file",
				names[i]);
	return 0;
}

/* An id that is not mapped would be refused by the kernel, in fewer words. */
static int refuse_ids(const struct oci_user *user, struct err *err)
{
	uint32_t greatest = user->uid > user->gid ? user->uid : user->gid;

	for (size_t i = 0; i < user->n_additional_gids; i++)
		if (user->additional_gids[i] > greatest)
			greatest = user->additional_gids[i];
	if (greatest < HARDEN_IDS)
		return 0;
	return err_set(err, 0, "level sandbox: process.user: id %u is not one of the %u inside",
		       greatest, HARDEN_IDS);
}

int harden_process(const struct oci_process *process, const struct moat_settings *settings,
		   struct err *err)
{
	uint64_t accepted = harden_capabilities(settings);
	const struct oci_capabilities *c = process->capabilities;

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		accepted |= 1ull << known[i].number;
	if (refuse_ids(process->user, err) < 0)
		return -1;
	if (!c)
		return 0;
	if (refuse_capability(c->bounding, c->n_bounding, accepted, err) < 0 ||
	    refuse_capability(c->permitted, c->n_permitted, accepted, err) < 0 ||
	    refuse_capability(c->effective, c->n_effective, accepted, err) < 0 ||
	    refuse_capability(c->inheritable, c->n_inheritable, accepted, err) < 0)
		return -1;
	return refuse_capability(c->ambient, c->n_ambient, accepted, err);
}

static const struct oci_namespace *find_namespace(const struct oci_linux *linux_, const char *kind)
{
	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++)
		if (str_eq(linux_->namespaces[i].type, kind))
			return &linux_->namespaces[i];
	return NULL;
}

/* Names of namespaces in /proc differ from those in config.json only for this one. */
bool harden_is_hosts(const char *kind, const char *path)
{
	_cleanup_free_ char *own =
		xasprintf("/proc/self/ns/%s", str_eq(kind, "network") ? "net" : kind);
	struct stat ours, theirs;

	return stat(own, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

static int refuse_namespaces(const struct oci_linux *linux_, const struct moat_settings *settings,
			     struct err *err)
{
	const struct oci_namespace *user = find_namespace(linux_, "user");

	for (size_t i = 0; i < ARRAY_LEN(host_namespaces); i++) {
		const char *kind = host_namespaces[i].kind;
		const struct oci_namespace *given = find_namespace(linux_, kind);

		if (given && (!given->path || !*given->path || !harden_is_hosts(kind, given->path)))
			continue;
		if (harden_allows(settings, host_namespaces[i].permission))
			continue;
		return err_set(err, 0,
			       "level sandbox: the container would be in the host's %s namespace: "
			       "put a %s into linux.namespaces, or %s into sandbox.allow in the "
			       "operator's file",
			       kind, kind, host_namespaces[i].permission);
	}
	if (user && user->path && *user->path)
		return err_set(err, 0,
			       "level sandbox: a user namespace that is there already cannot be "
			       "joined: leave it out, the container gets one of its own");
	return 0;
}

static int refuse_mappings(const struct oci_id_mapping *maps, size_t count, const char *name,
			   struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if (maps[i].host_id == 0)
			return err_set(err, 0,
				       "level sandbox: linux.%s maps the host's root into the "
				       "container: leave the mappings out, it gets ids of its own",
				       name);
	return 0;
}

static bool allows_all(const struct oci_device_rule *rule)
{
	bool any_number = !rule->type || *rule->type == 'a' || !rule->has_major || rule->major < 0;

	/* Making nodes ("m") is no danger where they cannot be opened. */
	return rule->allow && any_number && (!rule->access || strpbrk(rule->access, "rw"));
}

static int refuse_devices(const struct oci_linux *linux_, struct err *err)
{
	static const char hint[] = "leave it out, or put devices into sandbox.allow in the "
				   "operator's file";
	const struct oci_linux_resources *resources = linux_ ? linux_->resources : NULL;

	for (size_t i = 0; linux_ && i < linux_->n_devices; i++) {
		const struct oci_device *device = &linux_->devices[i];

		if (*device->type == 'p' ||
		    ((*device->type == 'c' || *device->type == 'u') &&
		     is_usual_device((unsigned int)device->major, (unsigned int)device->minor)))
			continue;
		return err_set(err, 0, "level sandbox: %.128s is a device of the host: %s",
			       device->path, hint);
	}
	for (size_t i = 0; resources && i < resources->n_devices; i++)
		if (allows_all(&resources->devices[i]))
			return err_set(err, 0,
				       "level sandbox: linux.resources.devices lets it use every "
				       "device of the host: %s",
				       hint);
	return 0;
}

static int refuse_source(const struct oci_mount *mount, bool devices, struct err *err)
{
	struct statfs fs;
	struct stat st;

	if (!mount->source || *mount->source != '/' || stat(mount->source, &st) < 0)
		return 0;
	if ((S_ISBLK(st.st_mode) ||
	     (S_ISCHR(st.st_mode) && !is_usual_device(major(st.st_rdev), minor(st.st_rdev)))) &&
	    !devices)
		return err_set(err, 0,
			       "level sandbox: mount %s: %s is a device of the host: leave it "
			       "out, or put devices into sandbox.allow in the operator's file",
			       mount->destination, mount->source);
	for (size_t i = 0; statfs(mount->source, &fs) == 0 && i < ARRAY_LEN(kernel_filesystems);
	     i++)
		if (fs.f_type == kernel_filesystems[i])
			return err_set(err, 0,
				       "level sandbox: mount %s: %s is the host's own: mount a "
				       "file system of its type instead of binding it",
				       mount->destination, mount->source);
	return 0;
}

static bool is_bind(const struct oci_mount *mount)
{
	for (size_t i = 0; i < mount->n_options; i++)
		if (str_eq(mount->options[i], "bind") || str_eq(mount->options[i], "rbind"))
			return true;
	return mount->type && str_eq(mount->type, "bind");
}

int harden_refuse(const struct oci_config *config, const struct moat_settings *settings,
		  struct err *err)
{
	const struct oci_linux *linux_ = config->linux_;
	bool devices = harden_allows(settings, "devices");

	if (refuse_namespaces(linux_, settings, err) < 0 ||
	    harden_process(config->process, settings, err) < 0)
		return -1;
	if (linux_ &&
	    (refuse_mappings(linux_->uid_mappings, linux_->n_uid_mappings, "uidMappings", err) <
		     0 ||
	     refuse_mappings(linux_->gid_mappings, linux_->n_gid_mappings, "gidMappings", err) < 0))
		return -1;
	if (!devices && refuse_devices(linux_, err) < 0)
		return -1;
	for (size_t i = 0; i < config->n_mounts; i++)
		if (is_bind(&config->mounts[i]) &&
		    refuse_source(&config->mounts[i], devices, err) < 0)
			return -1;
	return 0;
}
