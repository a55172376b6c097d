/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config.json, written for a host, as it holds inside of the guest. What the monitor does outside
 * (hooks, the network namespace, devices of the host) is left out, and so are security modules,
 * whose policies are the host's; what nobody could do is an error.
 */
#pragma once

#include "base/err.h"
#include "guest/disk.h"
#include "oci/config.h"
#include "rpc/agent.pb-c.h"

#include <stddef.h>

/* A disk that is in linux.devices. */
struct guest_disk {
	const struct oci_device *device; /* as config.json has it, with the host's numbers */
	char name[DISK_NAME_MAX];
	dev_t number;
};

/* linux.resources without what names processors, devices and interfaces of the host. */
struct guest_resources {
	struct oci_linux_resources resources;
	struct oci_cpu cpu;
	struct oci_pair *unified; /* ours */
};

struct guest_process {
	struct oci_process process;
	struct oci_console_size console_size;
};

struct guest_config {
	struct oci_config *parsed; /* owns all strings but those below */
	struct oci_config config;  /* what the namespace engine gets: parsed with parts replaced */
	struct oci_root root;
	struct oci_hooks hooks;
	struct guest_process process;
	struct oci_linux linux_;
	struct guest_resources resources;
	struct oci_mount *mounts;   /* the array is ours */
	char **sources;		    /* n_mounts, NULL where the source is as it was */
	char ***options;	    /* likewise of the options; the arrays are ours */
	struct oci_device *devices; /* ours */
	struct guest_disk *disks;   /* ours */
	size_t n_disks;
	struct oci_namespace *namespaces;	/* ours */
	struct oci_pair *sysctl;		/* ours: without those of the network */
	const struct oci_pair **network_sysctl; /* what the agent itself has to set */
	size_t n_network_sysctl;
};

/*
 * guest_config_read() - parse and rewrite the config of a request.
 * @trees: directory that the entries of the virtio-fs device are in: "/run/moat/fs".
 * @blocks: directory where the kernel describes its disks: "/sys/block".
 *
 * Returns 0; -1 with err set, whose message names the place in config.json. Release with
 * guest_config_release() in both cases.
 */
int guest_config_read(struct guest_config *config,
		      const Moat__Agent__CreateContainerRequest *request, const char *trees,
		      const char *blocks, struct err *err);
void guest_config_release(struct guest_config *config);

/* guest_process_set() - the same for a process alone. @stdio: may be NULL. */
void guest_process_set(struct guest_process *out, const struct oci_process *parsed,
		       const Moat__Agent__Stdio *stdio);

/*
 * guest_resources_set() - the same for resources alone, of a container with that config. Returns 0,
 * or -1 with err set; guest_resources_release() them in both cases.
 */
int guest_resources_set(struct guest_resources *out, const struct oci_linux_resources *parsed,
			const struct guest_config *config, struct err *err);
void guest_resources_release(struct guest_resources *resources);
