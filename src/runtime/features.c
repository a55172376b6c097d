/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `features` says: collected from the tables that the engines themselves use. */
#include "runtime/runtime.h"

#include "base/str.h"
#include "cgroup/systemd.h"
#include "oci/config.h"
#include "oci/runtime_features.h"
#include "oci/settings.h"
#include "sandbox/mount_options.h"
#include "sandbox/seccomp.h"

#include <ctype.h>
#include <string.h>
#include <sys/capability.h>

/* In the order in which they run. */
static const char *const hooks[] = { "prestart",       "createRuntime", "createContainer",
				     "startContainer", "poststart",	"poststop" };

static size_t count(const char *const *names)
{
	size_t n = 0;

	while (names[n])
		n++;
	return n;
}

/* The flags that both the library's table and the running kernel know. The array is to be freed. */
static char **supported_flags(size_t *n)
{
	char **flags = xcalloc(count(oci_seccomp_flags) + 1, sizeof(char *));

	*n = 0;
	for (size_t i = 0; oci_seccomp_flags[i]; i++)
		if (seccomp_flag_supported(oci_seccomp_flags[i]))
			flags[(*n)++] = (char *)oci_seccomp_flags[i];
	return flags;
}

/* The capabilities that the running kernel has, by name. To be freed, each and all. */
static char **capability_names(size_t *n)
{
	char **names = xcalloc(CAP_LAST_CAP + 2, sizeof(char *));

	*n = 0;
	for (cap_value_t i = 0; i <= CAP_LAST_CAP && CAP_IS_SUPPORTED(i); i++) {
		char *name = cap_to_name(i);

		for (char *p = name; p && *p; p++)
			*p = (char)toupper((unsigned char)*p);
		if (name)
			names[(*n)++] = xstrdup(name);
		cap_free(name);
	}
	return names;
}

static bool has_name(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (str_eq(*names, name))
			return true;
	return false;
}

static struct oci_features_seccomp seccomp_features(void)
{
	return (struct oci_features_seccomp){
		.enabled = true,
		.has_enabled = true,
		.actions = (char **)oci_seccomp_actions,
		.n_actions = count(oci_seccomp_actions),
		.operators = (char **)oci_seccomp_operators,
		.n_operators = count(oci_seccomp_operators),
		.archs = (char **)oci_seccomp_architectures,
		.n_archs = count(oci_seccomp_architectures),
		.known_flags = (char **)oci_seccomp_flags,
		.n_known_flags = count(oci_seccomp_flags),
	};
}

/* Of the host's block devices, what a microVM may have. */
static char *list_devices(const struct moat_settings *settings)
{
	char *list = xstrdup("");

	for (size_t i = 0; i < settings->n_block_devices; i++) {
		char *longer =
			xasprintf("%s%s%s", list, *list ? " " : "", settings->block_devices[i]);

		free(list);
		list = longer;
	}
	return list;
}

/*
 * An annotation of config.json may weaken nothing unless the operator lists it: what is listed is
 * what an engine must not pass on from people it does not trust.
 */
static void add_annotations(struct oci_features *features, const struct moat_settings *settings,
			    struct oci_pair pairs[2], const char *devices)
{
	pairs[0] = (struct oci_pair){ (char *)"run.moat.version", (char *)MOAT_VERSION };
	pairs[1] = (struct oci_pair){ (char *)"run.moat.blockDevices", (char *)devices };
	features->annotations = pairs;
	features->n_annotations = *devices ? 2 : 1;
	features->potentially_unsafe_config_annotations = settings->annotations;
	features->n_potentially_unsafe_config_annotations = settings->n_annotations;
}

/* What is of no system, beside what is Linux's. */
static char *write_with(const struct runtime *runtime, struct oci_features_linux *linux_)
{
	const char *const *options = mount_option_names();
	struct oci_features features = {
		.oci_version_min = (char *)"1.0.0",
		.oci_version_max = (char *)RUNTIME_OCI_VERSION,
		.hooks = (char **)hooks,
		.n_hooks = ARRAY_LEN(hooks),
		.mount_options = (char **)options,
		.n_mount_options = count(options),
		.linux_ = linux_,
	};
	_cleanup_free_ char *devices =
		runtime->isolation == ISOLATION_VM ? list_devices(runtime->settings) : xstrdup("");
	struct oci_pair pairs[2];

	add_annotations(&features, runtime->settings, pairs, devices);
	return oci_features_write(&features, NULL);
}

char *features_json(const struct runtime *runtime)
{
	bool vm = runtime->isolation == ISOLATION_VM; /* the guest's kernel has no AppArmor */
	struct oci_features_cgroup cgroup = { .v1 = true,
					      .has_v1 = true,
					      .v2 = true,
					      .has_v2 = true,
					      .systemd = systemd_available,
					      .has_systemd = true,
					      .systemd_user = systemd_available,
					      .has_systemd_user = true,
					      .rdma = true,
					      .has_rdma = true };
	struct oci_features_seccomp seccomp = seccomp_features();
	_cleanup_free_ char **flags = supported_flags(&seccomp.n_supported_flags);
	_cleanup_(strings_free_pointer) char **capabilities = NULL;
	struct oci_features_enabled no = { .has_enabled = true };
	struct oci_features_enabled yes = { .enabled = true, .has_enabled = true };
	struct oci_features_intel_rdt rdt = { .enabled = !vm,
					      .has_enabled = true,
					      .schemata = !vm,
					      .has_schemata = true,
					      .monitoring = !vm,
					      .has_monitoring = true };
	struct oci_features_memory_policy memory = {
		.modes = (char **)oci_memory_policy_modes,
		.n_modes = count(oci_memory_policy_modes),
		.flags = (char **)oci_memory_policy_flags,
		.n_flags = count(oci_memory_policy_flags),
	};
	struct oci_features_mount_extensions extensions = {
		.idmap = !vm && has_name(mount_option_names(), "idmap") ? &yes : &no,
	};
	struct oci_features_linux linux_ = {
		.namespaces = (char **)oci_namespace_types,
		.n_namespaces = count(oci_namespace_types),
		.cgroup = &cgroup,
		.seccomp = &seccomp,
		.apparmor = vm ? &no : &yes,
		.selinux = &no,
		.intel_rdt = &rdt,
		.memory_policy = &memory,
		.mount_extensions = &extensions,
		.net_devices = vm ? &no : &yes,
	};

	seccomp.supported_flags = flags;
	capabilities = capability_names(&linux_.n_capabilities);
	linux_.capabilities = capabilities;
	return write_with(runtime, &linux_);
}
