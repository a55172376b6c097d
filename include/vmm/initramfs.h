/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a kernel takes for an initramfs: told from its first bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define INITRAMFS_MAGIC_MAX 6 /* bytes that are looked at */

/*
 * initramfs_is() - a cpio archive, or one in a compression that kernels know (Linux,
 * Documentation/driver-api/early-userspace/buffer-format.rst, and lib/decompress.c).
 * @head: the first bytes of the file; @size of them.
 */
bool initramfs_is(const unsigned char *head, size_t size);
