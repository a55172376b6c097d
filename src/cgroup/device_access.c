/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the device rules of a config.json mean for one device. */
#include "cgroup/cgroup.h"
#include "cgroup/devices.h"

#include "base/str.h"
#include "oci/config.h"

static bool is_any_or(int64_t number, int64_t wanted)
{
	return number == DEVICE_ANY || number == wanted;
}

int cgroup_device_access(const struct oci_linux_resources *resources,
			 const struct oci_device *device, bool *read, bool *write, struct err *err)
{
	uint32_t type = device->type[0] == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;
	_cleanup_(device_rules_cleanup) struct device_rules rules = { 0 };
	uint32_t access = 0;

	if (device_rules_read(resources, &rules, err) < 0)
		return -1;
	if (!rules.count) /* then nothing is forbidden */
		access = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
	for (size_t i = 0; i < rules.count; i++) {
		const struct device_rule *rule = &rules.items[i];

		if ((rule->type && rule->type != type) || !is_any_or(rule->major, device->major) ||
		    !is_any_or(rule->minor, device->minor))
			continue;
		access = rule->allow ? access | rule->access : access & ~rule->access;
	}
	*read = access & BPF_DEVCG_ACC_READ;
	*write = access & BPF_DEVCG_ACC_WRITE;
	return 0;
}

bool cgroup_allows_every_device(const struct oci_linux_resources *resources)
{
	for (size_t i = 0; resources && i < resources->n_devices; i++) {
		const struct oci_device_rule *rule = &resources->devices[i];

		if (rule->allow && !(rule->has_major && rule->major >= 0) &&
		    !(rule->has_minor && rule->minor >= 0) &&
		    (!rule->type || str_eq(rule->type, "a")))
			return true;
	}
	return false;
}
