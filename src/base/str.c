/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strings. */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool str_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

int str_to_u64(const char *s, uint64_t max, uint64_t *value)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)s[0])) {
		errno = EINVAL;
		return -1;
	}
	errno = 0;
	n = strtoull(s, &end, 10);
	if (*end) {
		errno = EINVAL;
		return -1;
	}
	if (errno == ERANGE || n > max) {
		errno = ERANGE;
		return -1;
	}
	*value = n;
	return 0;
}

int str_to_i64(const char *s, int64_t *value)
{
	bool negative = s[0] == '-';
	uint64_t n;

	if (str_to_u64(s + negative, negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, &n) < 0)
		return -1;
	*value = negative ? (int64_t)(0 - n) : (int64_t)n;
	return 0;
}

/* One "N" or "N-M", ended by a comma or the end of the string. Returns where it ends; or NULL. */
static const char *take_range(const char *s, uint64_t max, uint64_t *first, uint64_t *last)
{
	char number[24];
	uint64_t *const ends[] = { first, last };

	for (size_t i = 0; i < 2; i++) {
		size_t n = strcspn(s, i == 0 ? "-," : ",");

		if (n >= sizeof(number)) {
			errno = EINVAL;
			return NULL;
		}
		memcpy(number, s, n);
		number[n] = '\0';
		if (str_to_u64(number, max, ends[i]) < 0)
			return NULL;
		s += n;
		if (*s != '-') {
			*last = *ends[i];
			return s;
		}
		s++;
	}
	return s;
}

int str_to_set(const char *s, unsigned long *bits, size_t n_bits)
{
	size_t word = 8 * sizeof(*bits);
	uint64_t first, last;
	int count = 0;

	memset(bits, 0, (n_bits + word - 1) / word * sizeof(*bits));
	do {
		s = take_range(s, n_bits - 1, &first, &last);
		if (!s)
			return -1;
		if (first > last) {
			errno = EINVAL;
			return -1;
		}
		for (; first <= last; first++) {
			unsigned long bit = 1ul << first % word;

			count += !(bits[first / word] & bit);
			bits[first / word] |= bit;
		}
	} while (*s++ == ',');
	return count;
}

char *str_escape(const void *bytes, size_t size, char *out, size_t room)
{
	const unsigned char *in = bytes;
	size_t used = 0;

	for (size_t i = 0; i < size; i++) {
		bool plain = in[i] >= 0x20 && in[i] < 0x7f && in[i] != '\\';
		size_t need = plain ? 1 : 4;

		if (used + need + 1 > room)
			break;
		if (plain)
			out[used] = (char)in[i];
		else
			snprintf(out + used, 5, "\\x%02x", in[i]);
		used += need;
	}
	if (room)
		out[used] = '\0';
	return out;
}
