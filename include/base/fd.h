/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Descriptors: scoped closing, whole reads and writes, passing them over a socket.
 * Every descriptor that these functions return is close-on-exec.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define _cleanup_fd_ _cleanup_(fd_close_pointer)

static inline void fd_close_pointer(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

/* fd_steal() - take a descriptor out of a _cleanup_fd_ variable; the caller owns it now. */
static inline int fd_steal(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/*
 * fd_open_standard() - put /dev/null where descriptor 0, 1 or 2 is closed, so that none that is
 * opened later takes its place and is passed on as a standard stream. Returns 0, or -1 with errno.
 */
int fd_open_standard(void);

/* fd_replace() - close what *slot holds, if anything, and put fd (owned from now on) there. */
void fd_replace(int *slot, int fd);

/*
 * fd_read_full() - read until size bytes came, or the end of the file.
 * Returns the number of bytes, less than size only at the end of the file; -1 with errno set.
 */
ssize_t fd_read_full(int fd, void *buffer, size_t size);

/* fd_write_full() - write all size bytes. Returns 0, or -1 with errno set. */
int fd_write_full(int fd, const void *buffer, size_t size);

/*
 * fd_read_text() - read a whole file of at most max bytes.
 * @length: where to put the number of bytes; may be NULL.
 *
 * Returns a NUL-terminated string that the caller frees; NULL with errno set, EFBIG if longer.
 */
char *fd_read_text(int fd, size_t max, size_t *length);

/*
 * fd_close_except() - close every descriptor from `first` up but those listed.
 * @keep: descriptors to keep, in any order; -1 entries are skipped.
 *
 * Returns 0, or -1 with errno set (close_range(2) is needed: Linux 5.9).
 */
int fd_close_except(int first, const int *keep, size_t count);

/* fd_set_cloexec() - set or clear close-on-exec. Returns 0, or -1 with errno set. */
int fd_set_cloexec(int fd, bool on);

/*
 * fd_send() - send one datagram with up to FD_SEND_MAX descriptors over a Unix socket.
 * The caller keeps its descriptors. Returns 0, or -1 with errno set.
 */
#define FD_SEND_MAX 40
int fd_send(int sock, const void *data, size_t size, const int *fds, size_t count);

/*
 * fd_receive() - receive one datagram and the descriptors with it.
 * @fds: room for max descriptors; those received are the caller's, the rest is set to -1.
 *
 * Returns the number of bytes, 0 at the end; -1 with errno set: EPROTO where the datagram or its
 * descriptors did not fit (they are closed).
 */
ssize_t fd_receive(int sock, void *data, size_t size, int *fds, size_t max);

/*
 * fd_socketpair() - a connected pair of Unix sockets, close-on-exec.
 * @type: SOCK_STREAM, SOCK_SEQPACKET, optionally with SOCK_NONBLOCK.
 *
 * Returns 0, or -1 with errno set.
 */
int fd_socketpair(int type, int pair[2]);

/*
 * fd_connect() - connect to a Unix stream socket.
 * @name: what listens there, for messages.
 *
 * Returns a descriptor, or -1 with err set.
 */
int fd_connect(const char *name, const char *path, struct err *err);

/* fd_reopen() - open the file behind fd anew through /proc/self/fd (for an O_PATH descriptor). */
int fd_reopen(int fd, int flags);
