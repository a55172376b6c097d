/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Descriptors. */
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

int fd_open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

void fd_replace(int *slot, int fd)
{
	fd_close_pointer(slot);
	*slot = fd;
}

ssize_t fd_read_full(int fd, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, (char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_write_full(int fd, const void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(fd, (const char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

char *fd_read_text(int fd, size_t max, size_t *length)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 4096, used = 0;
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		size = (size_t)st.st_size + 2; /* room to see the end in the first read */
	for (;;) {
		ssize_t n;

		if (size > max + 2)
			size = max + 2;
		text = xrealloc(text, size, 1);
		n = fd_read_full(fd, text + used, size - 1 - used);
		if (n < 0)
			return NULL;
		used += (size_t)n;
		if (used > max) {
			errno = EFBIG;
			return NULL;
		}
		if (used < size - 1)
			break;
		size *= 2;
	}
	text[used] = '\0';
	if (length)
		*length = used;
	return steal(text);
}

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

int fd_close_except(int first, const int *keep, size_t count)
{
	_cleanup_free_ int *sorted = xcalloc(count + 1, sizeof(int));
	unsigned int next = (unsigned int)first;

	if (count)
		memcpy(sorted, keep, count * sizeof(int));
	qsort(sorted, count, sizeof(int), compare_ints);
	for (size_t i = 0; i < count; i++) {
		unsigned int fd = (unsigned int)sorted[i];

		if (sorted[i] < 0 || fd < next)
			continue;
		if (fd > next && syscall(SYS_close_range, next, fd - 1, 0) < 0)
			return -1;
		next = fd + 1;
	}
	return (int)syscall(SYS_close_range, next, ~0U, 0);
}

int fd_set_cloexec(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFD);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFD, on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC);
}

int fd_send(int sock, const void *data, size_t size, const int *fds, size_t count)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int) * FD_SEND_MAX)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (count > FD_SEND_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (count) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.buffer;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * count);
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && (size_t)n != size) {
		errno = EMSGSIZE;
		return -1;
	}
	return n < 0 ? -1 : 0;
}

/* Takes the descriptors of one control message; returns how many did not fit (and were closed). */
static size_t take_rights(struct cmsghdr *cmsg, int *fds, size_t max, size_t *used)
{
	size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int), dropped = 0;

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
		if (*used < max) {
			fds[(*used)++] = fd;
		} else {
			close(fd);
			dropped++;
		}
	}
	return dropped;
}

ssize_t fd_receive(int sock, void *data, size_t size, int *fds, size_t max)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int) * FD_SEND_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { data, size };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buffer,
			      .msg_controllen = sizeof(control.buffer) };
	size_t used = 0, dropped = 0;
	ssize_t n;

	for (size_t i = 0; i < max; i++)
		fds[i] = -1;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			dropped += take_rights(c, fds, max, &used);
	if (!dropped && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	for (size_t i = 0; i < used; i++)
		fd_replace(&fds[i], -1);
	errno = EPROTO;
	return -1;
}

int fd_socketpair(int type, int pair[2])
{
	return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair);
}

int fd_connect(const char *name, const char *path, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	if (length >= sizeof(address.sun_path))
		return err_set(err, ENAMETOOLONG, "connect to the %s %s", name, path);
	memcpy(address.sun_path, path, length);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, errno, "connect to the %s %s", name, path);
	return fd_steal(&fd);
}

int fd_reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}
