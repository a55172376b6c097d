/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rewriting config.json for the guest. The parsed config stays whole; copies of the structs that
 * change point into it.
 */
#include "guest/config.h"

#include "base/mem.h"
#include "base/str.h"
#include "guest/devices.h"
#include "guest/disk.h"
#include "guest/refuse.h"

/* Settings of cgroup v2 that are about the workload's use of the guest, not about host devices. */
static const char *const own_controllers[] = { "cgroup.", "cpu.", "memory.", "pids." };

static int rewrite_root(struct guest_config *out,
			const Moat__Agent__CreateContainerRequest *request, const char *trees,
			struct err *err)
{
	const Moat__Agent__Tree *tree = request->root;

	if (!tree && !request->root_is_disk)
		return err_set(err, EINVAL, "the request gives no tree for the root file system");
	out->root = *out->parsed->root;
	out->root.path = tree ? xasprintf("%s/%u", trees, tree->entry) : xstrdup(DISK_ROOT);
	out->config.root = &out->root;
	return 0;
}

static int place_trees(struct guest_config *out, const Moat__Agent__CreateContainerRequest *request,
		       const char *trees, struct err *err)
{
	for (size_t i = 0; i < request->n_trees; i++) {
		const Moat__Agent__Tree *tree = request->trees[i];

		if (tree->mount >= out->config.n_mounts || out->sources[tree->mount] ||
		    !guest_is_bind(&out->mounts[tree->mount]))
			return err_set(err, EINVAL,
				       "the request gives a tree for mounts[%u], which takes none",
				       tree->mount);
		out->sources[tree->mount] = xasprintf("%s/%u", trees, tree->entry);
		out->mounts[tree->mount].source = out->sources[tree->mount];
	}
	return 0;
}

static bool has_user_namespace(const struct oci_config *config)
{
	const struct oci_linux *linux_ = config->linux_;

	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++)
		if (str_eq(linux_->namespaces[i].type, "user"))
			return true;
	return false;
}

/*
 * A new sysfs shows the network namespace that its maker is in, and must own: in a user namespace
 * the guest's is not its own, so it gets the guest's sysfs.
 */
static void bind_sysfs(struct guest_config *out, size_t index)
{
	struct oci_mount *mount = &out->mounts[index];
	char **options = xcalloc(mount->n_options + 2, sizeof(*options));

	for (size_t i = 0; i < mount->n_options; i++)
		options[i] = mount->options[i];
	options[mount->n_options++] = (char *)"bind";
	out->options[index] = mount->options = options;
	mount->type = (char *)"bind";
	mount->source = (char *)"/sys";
}

/* Owners of files are mapped on the host, in what fsd was given. */
static void forget_owners(struct guest_config *out, size_t index)
{
	struct oci_mount *mount = &out->mounts[index];
	char **options = xcalloc(mount->n_options + 1, sizeof(*options));
	size_t kept = 0;

	for (size_t i = 0; i < mount->n_options; i++)
		if (!str_eq(mount->options[i], "idmap") && !str_eq(mount->options[i], "ridmap"))
			options[kept++] = mount->options[i];
	out->options[index] = mount->options = options;
	mount->n_options = kept;
	mount->n_uid_mappings = mount->n_gid_mappings = 0;
}

static int rewrite_mounts(struct guest_config *out,
			  const Moat__Agent__CreateContainerRequest *request, const char *trees,
			  struct err *err)
{
	size_t count = out->config.n_mounts;

	out->mounts = xcalloc(count, sizeof(*out->mounts));
	out->sources = xcalloc(count, sizeof(*out->sources));
	out->options = xcalloc(count, sizeof(*out->options));
	if (count)
		memcpy(out->mounts, out->parsed->mounts, count * sizeof(*out->mounts));
	out->config.mounts = out->mounts;
	if (place_trees(out, request, trees, err) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		const struct oci_mount *mount = &out->mounts[i];
		const char *type = mount->type ? mount->type : "none";

		if (guest_is_bind(mount) && !out->sources[i])
			return err_set(err, EINVAL, "the request gives no tree for mounts[%zu]", i);
		if (guest_is_bind(mount))
			forget_owners(out, i);
		else if (str_eq(type, "sysfs") && has_user_namespace(out->parsed))
			bind_sysfs(out, i);
	}
	return 0;
}

void guest_process_set(struct guest_process *out, const struct oci_process *parsed,
		       const Moat__Agent__Stdio *stdio)
{
	struct oci_process *process = &out->process;

	*process = *parsed;
	/* The agent's own -1000 would be inherited. */
	if (!process->has_oom_score_adj) {
		process->has_oom_score_adj = true;
		process->oom_score_adj = 0;
	}
	/*
	 * Engines give every container one where the host has the module. It is a policy about what
	 * the host's kernel does for a process, and the workload is none of its processes.
	 */
	process->apparmor_profile = NULL;
	process->selinux_label = NULL;
	if (stdio && stdio->rows && stdio->columns) {
		out->console_size.height = stdio->rows;
		out->console_size.width = stdio->columns;
		process->console_size = &out->console_size;
	}
}

/* Those that start with the container's root are the guest's; the monitor runs the others. */
static void rewrite_hooks(struct guest_config *out)
{
	const struct oci_hooks *parsed = out->parsed->hooks;

	out->config.hooks = NULL;
	if (!parsed || !parsed->n_start_container)
		return;
	out->hooks.start_container = parsed->start_container;
	out->hooks.n_start_container = parsed->n_start_container;
	out->config.hooks = &out->hooks;
}

/* The guest's own network is the container's; other namespaces of the host are out of reach. */
static int rewrite_namespaces(struct guest_config *out, struct err *err)
{
	const struct oci_linux *parsed = out->parsed->linux_;
	size_t kept = 0;

	out->namespaces = xcalloc(parsed->n_namespaces, sizeof(*out->namespaces));
	for (size_t i = 0; i < parsed->n_namespaces; i++) {
		const struct oci_namespace *namespace = &parsed->namespaces[i];

		if (str_eq(namespace->type, "network"))
			continue;
		if (namespace->path)
			return err_set(err, 0,
				       "config.json: linux.namespaces[%zu]: a microVM cannot join "
				       "the %s namespace %s of the host",
				       i, namespace->type, namespace->path);
		out->namespaces[kept++] = *namespace;
	}
	out->linux_.namespaces = out->namespaces;
	out->linux_.n_namespaces = kept;
	return 0;
}

/*
 * A container in a user namespace cannot make nodes; the engine of namespaces binds those of its
 * own surroundings, which for disks are made there.
 */
static int make_nodes(struct guest_config *out, struct err *err)
{
	for (size_t i = 0; has_user_namespace(out->parsed) && i < out->linux_.n_devices; i++)
		if (str_eq(out->devices[i].type, "b") &&
		    disk_make_node(&out->devices[i], &out->linux_, err) < 0)
			return -1;
	return 0;
}

static bool is_of_network(const struct oci_pair *sysctl)
{
	return str_starts_with(sysctl->key, "net.") || str_starts_with(sysctl->key, "net/");
}

static void rewrite_sysctl(struct guest_config *out)
{
	const struct oci_linux *parsed = out->parsed->linux_;
	size_t kept = 0;

	out->sysctl = xcalloc(parsed->n_sysctl, sizeof(*out->sysctl));
	out->network_sysctl = xcalloc(parsed->n_sysctl, sizeof(*out->network_sysctl));
	for (size_t i = 0; i < parsed->n_sysctl; i++) {
		if (is_of_network(&parsed->sysctl[i]))
			out->network_sysctl[out->n_network_sysctl++] = &parsed->sysctl[i];
		else
			out->sysctl[kept++] = parsed->sysctl[i];
	}
	out->linux_.sysctl = out->sysctl;
	out->linux_.n_sysctl = kept;
}

/*
 * Memory, pids and processor time are limited on both sides: outside for the host's sake, inside so
 * that the workload, and not the machine, meets the limit, and can read it.
 */
int guest_resources_set(struct guest_resources *out, const struct oci_linux_resources *parsed,
			const struct guest_config *config, struct err *err)
{
	struct oci_linux_resources *resources = &out->resources;
	size_t kept = 0;

	*resources = *parsed;
	resources->block_io = NULL;
	resources->hugepage_limits = NULL;
	resources->n_hugepage_limits = 0;
	resources->network = NULL;
	resources->rdma = NULL;
	resources->n_rdma = 0;
	if (parsed->cpu) {
		out->cpu = *parsed->cpu;
		out->cpu.cpus = NULL;
		out->cpu.mems = NULL;
		out->cpu.has_realtime_period = out->cpu.has_realtime_runtime = false;
		resources->cpu = &out->cpu;
	}
	out->unified = xcalloc(parsed->n_unified, sizeof(*out->unified));
	for (size_t i = 0; i < parsed->n_unified; i++)
		for (size_t j = 0; j < ARRAY_LEN(own_controllers); j++)
			if (str_starts_with(parsed->unified[i].key, own_controllers[j]))
				out->unified[kept++] = parsed->unified[i];
	resources->unified = out->unified;
	resources->n_unified = kept;
	return guest_device_rules_set(resources, parsed, config->disks, config->n_disks, err);
}

void guest_resources_release(struct guest_resources *resources)
{
	free(steal(resources->unified));
	free(steal(resources->resources.devices));
}

static int rewrite_linux(struct guest_config *out,
			 const Moat__Agent__CreateContainerRequest *request, const char *blocks,
			 struct err *err)
{
	if (!out->parsed->linux_)
		return 0;
	out->linux_ = *out->parsed->linux_;
	out->config.linux_ = &out->linux_;
	out->linux_.cgroups_path = NULL; /* the agent's own choice */
	out->linux_.mount_label = NULL;
	out->linux_.memory_policy =
		NULL; /* of the host's nodes, which the machine's memory is from */
	if (guest_devices_set(out, request, blocks, err) < 0 || make_nodes(out, err) < 0)
		return -1;
	rewrite_sysctl(out);
	if (out->linux_.resources) {
		if (guest_resources_set(&out->resources, out->linux_.resources, out, err) < 0)
			return -1;
		out->linux_.resources = &out->resources.resources;
	}
	return rewrite_namespaces(out, err);
}

int guest_config_read(struct guest_config *out, const Moat__Agent__CreateContainerRequest *request,
		      const char *trees, const char *blocks, struct err *err)
{
	*out = (struct guest_config){ 0 };
	out->parsed =
		oci_config_parse(request->config, strlen(request->config), "config.json", err);
	if (!out->parsed || guest_refuse(out->parsed, err) < 0)
		return -1;
	out->config = *out->parsed;
	out->config.vm = NULL;
	rewrite_hooks(out);
	if (out->parsed->process) {
		guest_process_set(&out->process, out->parsed->process, request->stdio);
		out->config.process = &out->process.process;
	}
	if (rewrite_root(out, request, trees, err) < 0 ||
	    rewrite_mounts(out, request, trees, err) < 0)
		return -1;
	return rewrite_linux(out, request, blocks, err);
}

void guest_config_release(struct guest_config *config)
{
	for (size_t i = 0; config->options && i < config->config.n_mounts; i++) {
		free(config->sources[i]);
		free(config->options[i]);
	}
	free(config->sources);
	free(config->options);
	free(config->mounts);
	free(config->devices);
	free(config->disks);
	free(config->namespaces);
	free(config->sysctl);
	guest_resources_release(&config->resources);
	free(config->network_sysctl);
	if (config->config.root == &config->root)
		free(config->root.path);
	oci_config_free(config->parsed);
	*config = (struct guest_config){ 0 };
}
