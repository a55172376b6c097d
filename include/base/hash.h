/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FNV-1a, 64 bits: names and damage; who means harm finds two of a kind at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_START 14695981039346656037u

/* hash_add() - the hash of what has been hashed so far and one value more. */
static inline uint64_t hash_add(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 1099511628211u;
}

static inline uint64_t hash_bytes(const void *bytes, size_t size)
{
	uint64_t hash = HASH_START;

	for (size_t i = 0; i < size; i++)
		hash = hash_add(hash, ((const uint8_t *)bytes)[i]);
	return hash;
}
