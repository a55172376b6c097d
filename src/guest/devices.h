/* SPDX-License-Identifier: GPL-2.0-or-later */
/* linux.devices and the rules about them, by the numbers that devices have in the guest. */
#pragma once

#include "guest/config.h"

/*
 * guest_devices_set() - rewrite linux.devices: those of the guest's own kernel, and disks. Of
 * --privileged, where every device is allowed, the others are left out.
 * @blocks: where the kernel describes its disks: "/sys/block".
 *
 * Returns 0, or -1 with err set.
 */
int guest_devices_set(struct guest_config *out, const Moat__Agent__CreateContainerRequest *request,
		      const char *blocks, struct err *err);

/*
 * guest_device_rules_set() - rewrite linux.resources.devices. Numbers of block devices are the
 * host's: such a rule holds for the disk that has the number there, and for nothing else.
 * @disks: as guest_devices_set() found them.
 *
 * Returns 0, or -1 with err set. rules->devices is the caller's to free.
 */
int guest_device_rules_set(struct oci_linux_resources *out,
			   const struct oci_linux_resources *parsed, const struct guest_disk *disks,
			   size_t count, struct err *err);
