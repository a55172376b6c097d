/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strings: comparison, strict numbers, and making hostile bytes safe to print. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends_with(const char *s, const char *suffix);

/*
 * str_to_u64() - a decimal number and nothing else: no sign, no space, no other base.
 * Returns 0; -1 with errno EINVAL or ERANGE (max is the largest value accepted).
 */
int str_to_u64(const char *s, uint64_t max, uint64_t *value);

/* str_to_i64() - the same with an optional leading minus. */
int str_to_i64(const char *s, int64_t *value);

/*
 * str_to_set() - a list of numbers and ranges as the kernel writes it, "0-3,7".
 * @bits: bit N of the array, whose words are unsigned long, is set for each N; the rest is cleared.
 * Returns how many are set; -1 with errno EINVAL, or ERANGE: a number that is not below n_bits.
 */
int str_to_set(const char *s, unsigned long *bits, size_t n_bits);

/*
 * str_escape() - size bytes that may be hostile, as printable ASCII: anything else becomes \xNN.
 * Writes at most room bytes with the final NUL, cutting at a whole escape; returns out.
 */
char *str_escape(const void *bytes, size_t size, char *out, size_t room);
