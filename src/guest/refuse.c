/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a config.json cannot hold inside of a microVM. The command looks before it starts a
 * machine, and the agent again, for it trusts nobody.
 */
#include "guest/refuse.h"

#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#define WHERE	"config.json: "
#define INSTEAD "; leave it out, or use --isolation=sandbox"

/* File systems that the guest's kernel makes out of nothing; any other would need the host's. */
static const char *const own_file_systems[] = {
	"bpf",	"cgroup", "cgroup2",	"devpts", "hugetlbfs", "mqueue",
	"proc", "ramfs",  "securityfs", "sysfs",  "tmpfs",
};

bool guest_is_bind(const struct oci_mount *mount)
{
	if (mount->type && str_eq(mount->type, "bind"))
		return true;
	for (size_t i = 0; i < mount->n_options; i++)
		if (str_eq(mount->options[i], "bind") || str_eq(mount->options[i], "rbind"))
			return true;
	return false;
}

static bool is_own(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(own_file_systems); i++)
		if (str_eq(type, own_file_systems[i]))
			return true;
	return false;
}

static int refuse_mounts(const struct oci_config *config, struct err *err)
{
	for (size_t i = 0; i < config->n_mounts; i++) {
		const struct oci_mount *mount = &config->mounts[i];
		const char *type = mount->type ? mount->type : "none";

		if (!guest_is_bind(mount) && !is_own(type))
			return err_set(err, 0,
				       WHERE "mounts[%zu]: a file system of type '%s' cannot be "
					     "mounted inside of a microVM; bind-mount it from the "
					     "host",
				       i, type);
	}
	return 0;
}

int guest_process_check(const struct oci_process *parsed, struct err *err)
{
	if (sandbox_check_process(parsed, err) < 0)
		return -1;
	if (parsed->exec_cpu_affinity)
		return err_set(err, 0,
			       "process.execCPUAffinity: a microVM has processors of its own; use "
			       "linux.resources.cpu.cpus for the machine as a whole");
	return 0;
}

/*
 * Devices of a guest's kernel that are the same as the host's: memory (null, zero, random, kmsg),
 * terminals, TUN/TAP and FUSE. Any other would be a node with nothing behind it.
 */
static const struct {
	int64_t major, minor; /* minor -1: any */
} guest_devices[] = { { 1, -1 }, { 5, -1 }, { 10, 200 }, { 10, 229 }, { 136, -1 } };

bool guest_has_device(const struct oci_device *device)
{
	if (str_eq(device->type, "p"))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(guest_devices); i++)
		if (!str_eq(device->type, "b") && device->has_major &&
		    device->major == guest_devices[i].major &&
		    (guest_devices[i].minor < 0 || device->minor == guest_devices[i].minor))
			return true;
	return false;
}

/* Block devices are the host's disks, which are looked at by those who know of them. */
static int refuse_devices(const struct oci_linux *config, struct err *err)
{
	for (size_t i = 0; i < config->n_devices; i++) {
		const struct oci_device *device = &config->devices[i];

		if (guest_has_device(device) || str_eq(device->type, "b") ||
		    cgroup_allows_every_device(config->resources))
			continue;
		return err_set(err, 0,
			       WHERE
			       "linux.devices[%zu]: %s (c %lld:%lld) is a device of the host, "
			       "which a microVM does not have" INSTEAD,
			       i, device->path, (long long)device->major, (long long)device->minor);
	}
	return 0;
}

/* What would have to reach from the host into the guest, or the other way round, and cannot. */
static int refuse_linux(const struct oci_linux *config, struct err *err)
{
	if (config->seccomp && config->seccomp->listener_path)
		return err_set(err, 0,
			       WHERE "linux.seccomp.listenerPath: a listener on the host cannot "
				     "serve system calls of a microVM" INSTEAD);
	if (config->n_net_devices)
		return err_set(err, 0,
			       WHERE "linux.netDevices: an interface of the host cannot be moved "
				     "into a microVM; move it into the container's network "
				     "namespace, whose interfaces the guest has, too");
	if (config->intel_rdt)
		return err_set(err, 0, WHERE "linux.intelRdt: not supported for a microVM" INSTEAD);
	return refuse_devices(config, err);
}

int guest_refuse(const struct oci_config *config, struct err *err)
{
	if ((config->process && guest_process_check(config->process, err) < 0) ||
	    refuse_mounts(config, err) < 0)
		return -1;
	return config->linux_ ? refuse_linux(config->linux_, err) : 0;
}
