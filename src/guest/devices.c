/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Devices of config.json in the guest. Character devices that the guest has, too, have the same
 * numbers there; a disk has others, and in a container with a user namespace, which cannot make
 * nodes, it is bound from the guest's own /dev.
 */
#include "guest/devices.h"

#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "guest/disk.h"
#include "guest/refuse.h"

#include <sys/sysmacros.h>

#define RULES_A_DISK 2u /* one that allows, one that denies */

static bool is_block(const struct oci_device *device)
{
	return str_eq(device->type, "b");
}

/* The disk that the request gives for an entry. Returns 1, 0 where it gives none, or -1. */
static int find_disk(const Moat__Agent__CreateContainerRequest *request, size_t index,
		     const char *blocks, struct guest_disk *disk, struct err *err)
{
	for (size_t i = 0; i < request->n_disks; i++)
		if (request->disks[i]->device == index)
			return disk_find(blocks, request->disks[i]->number, disk->name,
					 &disk->number, err) < 0
				       ? -1
				       : 1;
	return 0;
}

static int refuse(const struct oci_device *device, size_t index, struct err *err)
{
	return err_set(err, 0,
		       "config.json: linux.devices[%zu]: %s is a block device, for which the "
		       "request gives no disk",
		       index, device->path);
}

/* Returns 1 where the entry stays, 0 where it goes, or -1. */
static int rewrite(struct guest_config *out, const Moat__Agent__CreateContainerRequest *request,
		   size_t index, const char *blocks, struct err *err)
{
	const struct oci_linux *parsed = out->parsed->linux_;
	const struct oci_device *device = &parsed->devices[index];
	struct guest_disk *disk = &out->disks[out->n_disks];
	struct oci_device *made = &out->devices[out->linux_.n_devices];
	int r;

	*made = *device;
	if (!is_block(device))
		return guest_has_device(device);
	disk->device = device;
	r = find_disk(request, index, blocks, disk, err);
	if (r < 0 || (r == 0 && !cgroup_allows_every_device(parsed->resources)))
		return r < 0 ? -1 : refuse(device, index, err);
	if (r == 0)
		return 0;
	made->major = major(disk->number);
	made->minor = minor(disk->number);
	out->n_disks++;
	return 1;
}

int guest_devices_set(struct guest_config *out, const Moat__Agent__CreateContainerRequest *request,
		      const char *blocks, struct err *err)
{
	size_t count = out->parsed->linux_->n_devices;

	out->devices = xcalloc(count + 1, sizeof(*out->devices));
	out->disks = xcalloc(count + 1, sizeof(*out->disks));
	out->linux_.devices = out->devices;
	out->linux_.n_devices = 0;
	for (size_t i = 0; i < count; i++) {
		int r = rewrite(out, request, i, blocks, err);

		if (r < 0)
			return -1;
		out->linux_.n_devices += (size_t)r;
	}
	return 0;
}

static bool has_number(const struct oci_device_rule *rule)
{
	return (rule->has_major && rule->major >= 0) || (rule->has_minor && rule->minor >= 0);
}

/* A rule of the host as far as it is one in the guest. Returns whether it is. */
static bool take(struct oci_device_rule *out, const struct oci_device_rule *rule)
{
	*out = *rule;
	if (!has_number(rule))
		return true;
	if (rule->type && str_eq(rule->type, "b"))
		return false;
	out->type = (char *)"c"; /* of "both", the half whose numbers are the same */
	return true;
}

static struct oci_device_rule rule_of(const struct guest_disk *disk, bool allow, bool read,
				      bool write)
{
	return (struct oci_device_rule){ .allow = allow,
					 .type = (char *)"b",
					 .has_major = true,
					 .major = major(disk->number),
					 .has_minor = true,
					 .minor = minor(disk->number),
					 .access = (char *)(read && write ? "rw"
							    : read	  ? "r"
									  : "w") };
}

/* What the host's rules come to for a disk, said with its number here. */
static int add_disk(struct oci_linux_resources *out, struct oci_device_rule *rules,
		    const struct oci_linux_resources *parsed, const struct guest_disk *disk,
		    struct err *err)
{
	bool read, write;

	if (cgroup_device_access(parsed, disk->device, &read, &write, err) < 0)
		return -1;
	if (read || write)
		rules[out->n_devices++] = rule_of(disk, true, read, write);
	if (!read || !write)
		rules[out->n_devices++] = rule_of(disk, false, !read, !write);
	return 0;
}

int guest_device_rules_set(struct oci_linux_resources *out,
			   const struct oci_linux_resources *parsed, const struct guest_disk *disks,
			   size_t count, struct err *err)
{
	struct oci_device_rule *rules =
		xcalloc(parsed->n_devices + RULES_A_DISK * count + 1, sizeof(*rules));

	out->devices = rules;
	out->n_devices = 0;
	for (size_t i = 0; i < parsed->n_devices; i++)
		out->n_devices += take(&rules[out->n_devices], &parsed->devices[i]);
	for (size_t i = 0; parsed->n_devices && i < count; i++)
		if (add_disk(out, rules, parsed, &disks[i], err) < 0)
			return -1;
	return 0;
}
