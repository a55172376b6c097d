/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A group's schemata: what config.json wants of it, written, or held against what is there. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct oci_intel_rdt;

/* resctrl_has_schema() - whether config.json wants any share in particular. */
bool resctrl_has_schema(const struct oci_intel_rdt *config);

/*
 * resctrl_write() - set the shares of the group at `group`. Where the kernel refuses, its reason
 * (info/last_cmd_status of the root) is in err. Returns 0, or -1.
 */
int resctrl_write(const char *root, const char *group, const struct oci_intel_rdt *config,
		  struct err *err);

/*
 * resctrl_compare() - whether a group that is there has the shares that config.json wants. Others
 * may be in it, so that it is not changed. Returns 0, or -1 with err set.
 */
int resctrl_compare(const char *group, const struct oci_intel_rdt *config, struct err *err);
