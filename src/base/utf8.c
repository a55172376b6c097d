/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UTF-8, a character at a time. */
#include "base/utf8.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character at the start of s, of which size bytes may be read; 0: none is there. */
static size_t character_size(const unsigned char *s, size_t size)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t code;

	if (n < 2)
		return n;
	if (n > size || s[0] > 0xf4)
		return 0;
	code = s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return n;
}

bool utf8_is_valid(const char *bytes, size_t size)
{
	const unsigned char *s = (const unsigned char *)bytes;

	for (size_t i = 0, n; i < size; i += n) {
		n = character_size(s + i, size - i);
		if (n == 0)
			return false;
	}
	return true;
}

char *utf8_clean(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t size = strlen(text), used = 0;
	char *out = xcalloc(size * 3 + 1, 1);

	for (size_t i = 0, n; i < size; i += n ? n : 1) {
		n = character_size((const unsigned char *)text + i, size - i);
		if (n == 0) {
			memcpy(out + used, replacement, 3);
			used += 3;
		} else {
			memcpy(out + used, text + i, n);
			used += n;
		}
	}
	return out;
}
