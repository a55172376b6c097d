/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * linux.memoryPolicy: of a container's init and each process that joins it, or of the machine that
 * its processes are in.
 */
#pragma once

#include "base/err.h"

struct oci_memory_policy;

/* memory_policy_apply() - set the caller's, which what it executes inherits. NULL: as it is. */
int memory_policy_apply(const struct oci_memory_policy *policy, struct err *err);
