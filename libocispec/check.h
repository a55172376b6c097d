/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the parser of an object that is described with the word "check" calls at its end. */
#pragma once

#include "oci/config.h"

/* Returns 0, or -1 with err set (code EINVAL); name is put in front. */
int oci_config_check(const struct oci_config *config, const char *name, struct err *err);
