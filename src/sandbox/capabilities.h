/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The five capability sets of a process (capabilities(7)). */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct oci_capabilities;

struct capability_sets {
	uint64_t bounding, effective, inheritable, permitted, ambient; /* bit N: capability N */
};

/*
 * capabilities_read() - names to sets; NULL gives empty ones. A name that this library or kernel
 * does not know gets a warning in the log and is left out, as the specification asks.
 */
void capabilities_read(const struct oci_capabilities *config, struct capability_sets *sets);

/* capabilities_limit() - leave out of all sets what is not in mask. */
void capabilities_limit(struct capability_sets *sets, uint64_t mask);

/* capabilities_bound() - drop all but sets->bounding from the bounding set. 0, or -1. */
int capabilities_bound(const struct capability_sets *sets, struct err *err);

/*
 * capabilities_apply() - make the thread's sets those. Nothing is inheritable or ambient that was
 * not asked for.
 * @extra: kept in the permitted and effective sets as well, for a last step before execve(2).
 */
int capabilities_apply(const struct capability_sets *sets, uint64_t extra, struct err *err);
