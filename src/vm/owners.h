/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sources of bind mounts whose files have other owners for the guest than on the disk. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct oci_config;
struct oci_mount;

/*
 * owners_map() - map a detached mount (mount_setattr(2), MOUNT_ATTR_IDMAP) as the options idmap and
 * ridmap, uidMappings and gidMappings of a bind mount ask for; without mappings of its own, by
 * those of the container's user namespace. The guest sees the result, whatever its kernel can do.
 * @path: of its source, for messages. Does nothing where nothing is asked for.
 * Returns 0, or -1 with err set.
 */
int owners_map(int tree, const struct oci_config *config, const struct oci_mount *mount,
	       const char *path, struct err *err);
