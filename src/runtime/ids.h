/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranges of the host's user and group ids, one for each container of level sandbox. They belong to
 * the machine and not to a state root: containers of two engines must not get the same.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

struct moat_sandbox;

#define IDS_RANGE 65536u

/*
 * ids_allocate() - take a range for the container whose state directory is there.
 * Ranges of containers that are gone are free again, whatever became of who made them.
 * Returns 0 with *base set to the first id, or -1 with err set.
 */
int ids_allocate(const struct moat_sandbox *settings, const char *state_path, uint32_t *base,
		 struct err *err);

/* ids_free() - give back what a container has, if anything. */
void ids_free(const char *state_path);
