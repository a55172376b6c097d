/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a config.json cannot hold inside of a microVM. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct oci_config;
struct oci_device;
struct oci_mount;
struct oci_process;

/* guest_refuse() - Returns 0, or -1 with err set, whose message names the place in config.json. */
int guest_refuse(const struct oci_config *config, struct err *err);

/* guest_process_check() - the same for a process alone. */
int guest_process_check(const struct oci_process *parsed, struct err *err);

/* guest_has_device() - whether the guest's kernel has what the host's has under these numbers. */
bool guest_has_device(const struct oci_device *device);

/* guest_is_bind() - whether a mount is one of a source that is there already. */
bool guest_is_bind(const struct oci_mount *mount);
