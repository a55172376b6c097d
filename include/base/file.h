/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whole small files: read, write, replace in one step. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/*
 * file_read() - the whole of a file of at most max bytes.
 * @dirfd: directory that a relative path starts from, or AT_FDCWD.
 * @length: where to put the number of bytes; may be NULL.
 *
 * Returns a NUL-terminated string that the caller frees, or NULL with err set (code: errno).
 */
char *file_read(int dirfd, const char *path, size_t max, size_t *length, struct err *err);
/*
 * file_read_regular() - the same of a regular file: one of another kind, a FIFO that would be
 * waited for, is an error.
 */
char *file_read_regular(int dirfd, const char *path, size_t max, size_t *length, struct err *err);

/*
 * file_write() - write text to an existing file, such as those of procfs, sysfs and cgroupfs, in
 * one write(2). Returns 0, or -1 with err set (code: errno).
 */
int file_write(int dirfd, const char *path, const char *text, struct err *err);

/*
 * file_replace() - create or replace a file so that a reader sees the old or the new one, whole.
 * Not synced: meant for /run. Returns 0, or -1 with err set.
 */
int file_replace(int dirfd, const char *path, const void *data, size_t size, mode_t mode,
		 struct err *err);
