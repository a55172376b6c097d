/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UTF-8 (RFC 3629): is it, and make it so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* utf8_is_valid() - shortest forms only, no surrogates, nothing past U+10FFFF. */
bool utf8_is_valid(const char *bytes, size_t size);

/* utf8_clean() - a copy with U+FFFD for each byte that is no part of a character; the caller's. */
char *utf8_clean(const char *text);
