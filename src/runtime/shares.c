/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A running container's share of the processors' cache and memory bandwidth (linux.intelRdt). */
#include "runtime/private.h"

#include "cgroup/resctrl.h"
#include "oci/config.h"
#include "oci/settings.h"

int instance_update_shares(struct instance *instance, const char *l3, const char *bandwidth,
			   struct err *err)
{
	const struct moat_settings *settings = instance->container.settings;
	const struct oci_linux *linux_;
	_cleanup_free_ char *root = NULL;

	if (instance_config(instance, err) < 0)
		return -1;
	linux_ = instance->config->linux_;
	if (!linux_ || !linux_->intel_rdt)
		return err_set(err, 0,
			       "change the shares of container %s: it has no resctrl group, as its "
			       "config.json had no linux.intelRdt",
			       instance->container.id);
	root = resctrl_find(settings->resctrl, err);
	if (!root)
		return -1;
	return resctrl_update(root, linux_->intel_rdt, instance->container.id, l3, bandwidth, err);
}
