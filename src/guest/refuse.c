/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a config.json cannot hold inside of a microVM. The command looks before it starts a
 * machine, and the agent again, for it trusts nobody.
 */
#include "guest/refuse.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#define WHERE "config.json: "

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

/* What would have to reach from the host into the guest, or the other way round, and cannot. */
static int refuse_linux(const struct oci_linux *config, struct err *err)
{
	if (config->seccomp && config->seccomp->listener_path)
		return err_set(err, 0,
			       WHERE "linux.seccomp.listenerPath: a listener on the host cannot "
				     "serve system calls of a microVM");
	if (config->n_net_devices)
		return err_set(err, 0,
			       WHERE "linux.netDevices: an interface of the host cannot be moved "
				     "into a microVM");
	if (config->memory_policy)
		return err_set(err, 0,
			       WHERE "linux.memoryPolicy: a microVM has one memory node; use "
				     "linux.resources.cpu.mems for the machine as a whole");
	if (config->intel_rdt)
		return err_set(err, 0, WHERE "linux.intelRdt: not supported for a microVM");
	return 0;
}

int guest_refuse(const struct oci_config *config, struct err *err)
{
	if ((config->process && guest_process_check(config->process, err) < 0) ||
	    refuse_mounts(config, err) < 0)
		return -1;
	return config->linux_ ? refuse_linux(config->linux_, err) : 0;
}
