/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A running container: further processes in it, and what is seen and held through its cgroup. */
#include "sandbox/control.h"

#include "base/mem.h"
#include "cgroup/cgroup.h"
#include "cgroup/owned.h"
#include "cgroup/resctrl.h"
#include "cgroup/stats.h"
#include "sandbox/harden.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "sandbox/rootless.h"
#include "sandbox/sandbox.h"

static int need_cgroup(const struct container *container, const char *action, struct err *err)
{
	if (container->cgroup_path)
		return 0;
	return err_set(err, 0, "%s container %s: it has no cgroup of its own", action,
		       container->id);
}

int plain_exec(struct container *container, const struct exec_options *options, pid_t *pid,
	       struct err *err)
{
	_cleanup_free_ char *cache = xasprintf("%s/seccomp", container->settings->cache);
	_cleanup_free_ char *cgroup = NULL, *resctrl = NULL;
	const struct oci_linux *linux_ = container->config->linux_;
	_cleanup_(hardening_free) struct hardening hardening = { 0 };
	struct sandbox_exec_params params = {
		.id = container->id,
		.init = container->pid,
		.config = container->config,
		.process = options->process,
		.user = options->user,
		.stdio = { 0, 1, 2 },
		.preserve_fds = options->preserve_fds,
		.console_socket = options->console_socket,
		.seccomp_cache = cache,
		.signals_fd = options->signals_fd,
		.describe = plain_describe,
		.describe_context = container,
	};

	if (cgroup_below(container->cgroup_path, options->cgroup, &cgroup, err) < 0)
		return -1;
	params.cgroup_path = cgroup;
	if (linux_ && linux_->intel_rdt) {
		params.resctrl = resctrl = resctrl_find(container->settings->resctrl, err);
		if (!resctrl)
			return -1;
	}
	if (container->isolation == ISOLATION_SANDBOX) {
		if (harden_process(options->process, container->settings, err) < 0)
			return -1;
		hardening_init(&hardening, container->config, container->settings,
			       container->id_base);
		params.hardening = &hardening;
	}
	return sandbox_exec(&params, pid, err);
}

int plain_pause(struct container *container, struct err *err)
{
	if (need_cgroup(container, "pause", err) < 0)
		return -1;
	return cgroup_freeze(container->cgroup_path, true, err);
}

int plain_resume(struct container *container, struct err *err)
{
	if (need_cgroup(container, "resume", err) < 0)
		return -1;
	return cgroup_freeze(container->cgroup_path, false, err);
}

int plain_update(struct container *container, const struct oci_linux_resources *resources,
		 struct err *err)
{
	if (need_cgroup(container, "change the limits of", err) < 0)
		return -1;
	return cgroup_update_owned(container, resources, err);
}

int plain_processes(struct container *container, pid_t **pids, size_t *count, struct err *err)
{
	if (!container->cgroup_path)
		return rootless_processes(container->pid, pids, count, err);
	return cgroup_processes(container->cgroup_path, pids, count, err);
}

struct moat_stats *plain_stats(struct container *container, struct err *err)
{
	if (need_cgroup(container, "read the statistics of", err) < 0)
		return NULL;
	return cgroup_stats(container->cgroup_path, err);
}

int plain_oom_watch(struct container *container, struct err *err)
{
	if (need_cgroup(container, "watch", err) < 0)
		return -1;
	return cgroup_oom_watch(container->cgroup_path, err);
}
