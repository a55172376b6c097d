/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A config.json made into a stricter one: namespaces, limits, kernel files and devices as the level
 * wants them, whatever the engine wrote.
 */
#include "sandbox/harden_private.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/settings.h"

#define CPU_PERIOD 100000u /* microseconds */

/* Beyond what engines hide: each tells of the machine, or of the kernel's addresses. */
static const char *const masked[] = {
	"/proc/acpi",
	"/proc/asound",
	"/proc/config.gz",
	"/proc/driver",
	"/proc/interrupts",
	"/proc/iomem",
	"/proc/ioports",
	"/proc/kallsyms",
	"/proc/kcore",
	"/proc/key-users",
	"/proc/keys",
	"/proc/kmsg",
	"/proc/kpagecgroup",
	"/proc/kpagecount",
	"/proc/kpageflags",
	"/proc/latency_stats",
	"/proc/modules",
	"/proc/mtrr",
	"/proc/pagetypeinfo",
	"/proc/sched_debug",
	"/proc/schedstat",
	"/proc/scsi",
	"/proc/slabinfo",
	"/proc/timer_list",
	"/proc/timer_stats",
	"/proc/vmallocinfo",
	"/proc/zoneinfo",
	"/sys/devices/virtual/dmi",
	"/sys/devices/virtual/powercap",
	"/sys/firmware",
	"/sys/fs/bpf",
	"/sys/fs/pstore",
	"/sys/hypervisor",
	"/sys/kernel/debug",
	"/sys/kernel/kexec_crash_loaded",
	"/sys/kernel/notes",
	"/sys/kernel/security",
	"/sys/kernel/slab",
	"/sys/kernel/tracing",
	"/sys/kernel/vmcoreinfo",
	"/sys/module",
	"/sys/power",
};

static const char *const readonly[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysrq-trigger",
};

/* In the user namespace of the container: none of these can be made any more below it. */
static const char *const no_more[] = {
	"user.max_user_namespaces", "user.max_mnt_namespaces", "user.max_pid_namespaces",
	"user.max_net_namespaces",  "user.max_ipc_namespaces", "user.max_uts_namespaces",
};

static void add_string(char ***strings, size_t *count, const char *text)
{
	for (size_t i = 0; i < *count; i++)
		if (str_eq((*strings)[i], text))
			return;
	*strings = xrealloc(*strings, *count + 2, sizeof(char *));
	(*strings)[(*count)++] = xstrdup(text);
	(*strings)[*count] = NULL;
}

static struct oci_namespace *need_namespace(struct oci_linux *linux_, const char *kind)
{
	struct oci_namespace *last;

	for (size_t i = 0; i < linux_->n_namespaces; i++)
		if (str_eq(linux_->namespaces[i].type, kind))
			return &linux_->namespaces[i];
	linux_->namespaces =
		xrealloc(linux_->namespaces, linux_->n_namespaces + 1, sizeof(*linux_->namespaces));
	last = &linux_->namespaces[linux_->n_namespaces++];
	*last = (struct oci_namespace){ .type = xstrdup(kind) };
	return last;
}

static void set_sysctl(struct oci_linux *linux_, const char *key, const char *value)
{
	struct oci_pair *pair = NULL;

	for (size_t i = 0; i < linux_->n_sysctl && !pair; i++)
		if (str_eq(linux_->sysctl[i].key, key))
			pair = &linux_->sysctl[i];
	if (pair) {
		free(pair->value);
	} else {
		linux_->sysctl =
			xrealloc(linux_->sysctl, linux_->n_sysctl + 1, sizeof(*linux_->sysctl));
		pair = &linux_->sysctl[linux_->n_sysctl++];
		pair->key = xstrdup(key);
	}
	pair->value = xstrdup(value);
}

static void limit(struct oci_linux_resources *resources, const struct moat_sandbox *settings)
{
	if (settings->pids) {
		if (!resources->pids)
			resources->pids = xcalloc(1, sizeof(*resources->pids));
		if (!resources->pids->has_limit || resources->pids->limit <= 0) {
			resources->pids->has_limit = true;
			resources->pids->limit = settings->pids;
		}
	}
	if (settings->memory) {
		if (!resources->memory)
			resources->memory = xcalloc(1, sizeof(*resources->memory));
		if (!resources->memory->has_limit || resources->memory->limit <= 0) {
			resources->memory->has_limit = true;
			resources->memory->limit = (int64_t)settings->memory;
		}
	}
	if (settings->cpus) {
		if (!resources->cpu)
			resources->cpu = xcalloc(1, sizeof(*resources->cpu));
		if (!resources->cpu->has_quota || resources->cpu->quota <= 0) {
			resources->cpu->has_quota = resources->cpu->has_period = true;
			resources->cpu->period = CPU_PERIOD;
			resources->cpu->quota = (int64_t)settings->cpus * CPU_PERIOD;
		}
	}
}

static struct oci_device_rule device_rule(bool allow, const char *type, int64_t major,
					  int64_t minor)
{
	return (struct oci_device_rule){
		.allow = allow,
		.type = type ? xstrdup(type) : NULL,
		.has_major = major >= 0,
		.major = major,
		.has_minor = minor >= 0,
		.minor = minor,
		.access = xstrdup("rwm"),
	};
}

/* Only the usual devices, in place of what the config says. */
static void restrict_devices(struct oci_linux_resources *resources)
{
	static const int numbers[][2] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 },
					  { 1, 9 }, { 5, 0 }, { 5, 2 }, { 136, -1 } };
	struct oci_device_rule *rules = xcalloc(ARRAY_LEN(numbers) + 1, sizeof(*rules));

	rules[0] = device_rule(false, "a", -1, -1);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		rules[i + 1] = device_rule(true, "c", numbers[i][0], numbers[i][1]);
	for (size_t i = 0; i < resources->n_devices; i++) {
		free(resources->devices[i].type);
		free(resources->devices[i].access);
	}
	free(resources->devices);
	resources->devices = rules;
	resources->n_devices = ARRAY_LEN(numbers) + 1;
}

static void remove_option(struct oci_mount *mount, const char *name)
{
	for (size_t i = 0; i < mount->n_options;) {
		if (!str_eq(mount->options[i], name)) {
			i++;
			continue;
		}
		free(mount->options[i]);
		memmove(&mount->options[i], &mount->options[i + 1],
			(mount->n_options - i) * sizeof(char *));
		mount->n_options--;
	}
}

static void force_option(struct oci_mount *mount, const char *name, const char *opposite)
{
	remove_option(mount, opposite);
	add_string(&mount->options, &mount->n_options, name);
}

/* Nodes come from devices.c as mounts of their own, so that no other mount needs to have any. */
static void restrict_mount(struct oci_mount *mount, bool own_cgroups)
{
	const char *type = mount->type ? mount->type : "bind";
	bool bind = !str_eq(type, "proc") && !str_eq(type, "sysfs") && !str_eq(type, "devpts") &&
		    !str_eq(type, "tmpfs") && !str_eq(type, "mqueue") &&
		    !str_starts_with(type, "cgroup");

	if (str_eq(type, "sysfs") || (str_starts_with(type, "cgroup") && !own_cgroups))
		force_option(mount, "ro", "rw");
	if (!str_eq(type, "devpts") && !bind)
		force_option(mount, "nodev", "dev");
	force_option(mount, "nosuid", "suid");
	if (bind)
		force_option(mount, "rnodev", "rdev");
	else if (!str_eq(type, "tmpfs"))
		force_option(mount, "noexec", "exec");
}

int harden_config(struct oci_config *config, const struct moat_settings *settings, struct err *err)
{
	struct oci_linux *linux_;
	struct oci_namespace *cgroup;

	if (harden_refuse(config, settings, err) < 0)
		return -1;
	if (!config->linux_)
		config->linux_ = xcalloc(1, sizeof(*config->linux_));
	linux_ = config->linux_;
	config->process->no_new_privileges = true;
	cgroup = need_namespace(linux_, "cgroup");
	free(cgroup->path);
	cgroup->path = NULL;
	if (!linux_->resources)
		linux_->resources = xcalloc(1, sizeof(*linux_->resources));
	limit(linux_->resources, settings->sandbox);
	if (!harden_allows(settings, "devices"))
		restrict_devices(linux_->resources);
	for (size_t i = 0; i < ARRAY_LEN(masked); i++)
		add_string(&linux_->masked_paths, &linux_->n_masked_paths, masked[i]);
	for (size_t i = 0; i < ARRAY_LEN(readonly); i++)
		add_string(&linux_->readonly_paths, &linux_->n_readonly_paths, readonly[i]);
	for (size_t i = 0; i < ARRAY_LEN(no_more); i++)
		set_sysctl(linux_, no_more[i], "0");
	for (size_t i = 0; i < config->n_mounts; i++)
		restrict_mount(&config->mounts[i], harden_allows(settings, "cgroups"));
	return 0;
}

bool harden_needs_ids(const struct oci_config *config)
{
	for (size_t i = 0; config->linux_ && i < config->linux_->n_namespaces; i++)
		if (str_eq(config->linux_->namespaces[i].type, "user"))
			return false;
	return true;
}

static void map(struct oci_id_mapping **maps, size_t *count, uint32_t base)
{
	free(*maps);
	*maps = xcalloc(1, sizeof(**maps));
	**maps = (struct oci_id_mapping){ .container_id = 0, .host_id = base, .size = HARDEN_IDS };
	*count = 1;
}

/* Without a user namespace ids inside were the host's: those in maps of mounts move along. */
static void move_ids(struct oci_id_mapping *maps, size_t count, uint32_t base)
{
	for (size_t i = 0; i < count; i++)
		if ((uint64_t)maps[i].host_id + maps[i].size <= HARDEN_IDS)
			maps[i].host_id += base;
}

void harden_map_ids(struct oci_config *config, uint32_t base)
{
	for (size_t i = 0; i < config->n_mounts; i++) {
		struct oci_mount *mount = &config->mounts[i];

		move_ids(mount->uid_mappings, mount->n_uid_mappings, base);
		move_ids(mount->gid_mappings, mount->n_gid_mappings, base);
	}
	need_namespace(config->linux_, "user");
	map(&config->linux_->uid_mappings, &config->linux_->n_uid_mappings, base);
	map(&config->linux_->gid_mappings, &config->linux_->n_gid_mappings, base);
}

static bool is_in_hosts(const struct oci_config *config, const char *kind)
{
	for (size_t i = 0; config->linux_ && i < config->linux_->n_namespaces; i++) {
		const struct oci_namespace *n = &config->linux_->namespaces[i];

		if (str_eq(n->type, kind))
			return n->path && *n->path && harden_is_hosts(kind, n->path);
	}
	return true;
}

void hardening_init(struct hardening *hardening, const struct oci_config *config,
		    const struct moat_settings *settings, uint32_t id_base)
{
	*hardening = (struct hardening){
		.ceiling = harden_calls(settings),
		.capabilities = harden_capabilities(settings),
		.id_base = id_base,
		.scope_sockets = is_in_hosts(config, "network"),
		.scope_signals = is_in_hosts(config, "pid"),
	};
}

void hardening_free(struct hardening *hardening)
{
	harden_calls_free(hardening->ceiling);
	hardening->ceiling = NULL;
}
