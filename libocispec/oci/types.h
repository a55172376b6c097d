/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all the generated headers share. */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An entry of a JSON object that maps names to strings. */
struct oci_pair {
	char *key, *value;
};
