/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the seccomp part share. */
#pragma once

#include "sandbox/seccomp.h"

#include <stddef.h>

/*
 * seccomp_program() - compile a profile, without a cache.
 * Fills insns and count of the filter. Returns 0, or -1 with err set.
 */
int seccomp_program(const struct oci_seccomp *seccomp, struct seccomp_filter *filter,
		    struct err *err);

/* What a compiled filter was made from, byte for byte. */
struct seccomp_key {
	char *bytes;
	size_t size, room;
};

/* seccomp_key_make() - all that the program depends on: the profile and the library. */
void seccomp_key_make(const struct oci_seccomp *seccomp, struct seccomp_key *key);

static inline void seccomp_key_free(struct seccomp_key *key)
{
	free(key->bytes);
}

/*
 * seccomp_cache_open() - the directory for compiled filters, made where it is missing.
 * Returns a descriptor, or -1 where it cannot be trusted or had.
 */
int seccomp_cache_open(const char *path);

/* seccomp_cache_load() - fills insns and count from the entry made from key. False: none. */
bool seccomp_cache_load(int dirfd, const struct seccomp_key *key, struct seccomp_filter *filter);

/* seccomp_cache_store() - keep a filter for later; failing is nobody's concern. */
void seccomp_cache_store(int dirfd, const struct seccomp_key *key,
			 const struct seccomp_filter *filter);
