/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is v2's own: controllers are passed on level by level, devices are a BPF program. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct oci_linux_resources;

/* v2_create() - cgroup_create() in the hierarchy mounted at mount. */
int v2_create(const char *mount, const char *path, const struct oci_linux_resources *resources,
	      struct err *err);

/* v2_adopt() - cgroup_adopt(). */
int v2_adopt(const char *mount, const char *path, const struct oci_linux_resources *resources,
	     struct err *err);

/* v2_update() - cgroup_update(). */
int v2_update(const char *mount, const char *path, const struct oci_linux_resources *resources,
	      struct err *err);
