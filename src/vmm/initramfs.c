/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a file can be an initramfs, before a guest's kernel finds out and panics. */
#include "vmm/initramfs.h"

#include "base/mem.h"

#include <string.h>

bool initramfs_is(const unsigned char *head, size_t size)
{
	static const struct {
		const char *bytes;
		size_t size;
	} magics[] = {
		{ "070701", 6 },
		{ "070702", 6 },	       /* cpio, without and with checksums */
		{ "\x02\x21\x4c\x18", 4 },     /* lz4, as kernels read it */
		{ "\x1f\x8b", 2 },	       /* gzip */
		{ "\x28\xb5\x2f\xfd", 4 },     /* zstd */
		{ "\xfd\x37\x7a\x58\x5a", 5 }, /* xz */
		{ "\x5d\x00\x00", 3 },	       /* lzma */
		{ "\x42\x5a\x68", 3 },	       /* bzip2 */
		{ "\x89\x4c\x5a\x4f", 4 },     /* lzo */
	};

	for (size_t i = 0; i < ARRAY_LEN(magics); i++)
		if (size >= magics[i].size && memcmp(head, magics[i].bytes, magics[i].size) == 0)
			return true;
	return false;
}
