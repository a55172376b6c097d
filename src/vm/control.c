/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket. Its address goes through /proc/self/fd, since the path of a state directory
 * may be longer than a Unix socket's address.
 */
#include "vm/control.h"

#include "base/fd.h"
#include "base/json.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SOCKET_NAME "control.sock"
#define BACKLOG	    64
#define ANSWER_MAX  JSON_SIZE_MAX

static void make_address(struct sockaddr_un *address, int state_fd)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
		 state_fd);
}

int control_listen(int state_fd, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;

	make_address(&address, state_fd);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return err_set(err, errno, "make " SOCKET_NAME " in the state directory");
	return fd_steal(&fd);
}

int control_accept(int listen_fd)
{
	_cleanup_fd_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid != 0 && peer.uid != geteuid()))
		return -1;
	return fd_steal(&fd);
}

static int silent(struct err *err)
{
	err_set(err, ETIMEDOUT, "wait for the container's monitor");
	return err_hint(err, "moat delete --force ends it");
}

int control_connect(int state_fd, uint32_t patience, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval timeout = { .tv_sec = patience };
	struct sockaddr_un address;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
		return err_set(err, errno, "make a socket");
	make_address(&address, state_fd);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd_steal(&fd);
	if (errno == ENOENT || errno == ECONNREFUSED)
		return err_set(err, ERR_NOT_RUNNING, "the container is not running");
	return err_set(err, errno, "connect to the container's monitor");
}

int control_send(int fd, const struct control_request *request, const int *fds, size_t count,
		 struct err *err)
{
	if (fd_send(fd, request, sizeof(*request), fds, count) == 0)
		return 0;
	if (errno == EPIPE || errno == ECONNRESET)
		return err_set(err, ERR_NOT_RUNNING, "the container has ended");
	return err_set(err, errno, "send to the container's monitor");
}

int control_reply(int fd, struct err *err)
{
	struct err reply;
	ssize_t n;

	do
		n = recv(fd, &reply, sizeof(reply), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return silent(err);
	if (n != (ssize_t)sizeof(reply))
		return err_set(err, ERR_NOT_RUNNING, "the container has ended");
	reply.text[sizeof(reply.text) - 1] = '\0';
	if (!reply.text[0])
		return 0;
	if (err)
		*err = reply;
	return -1;
}

int control_call(int state_fd, const struct control_request *request, struct err *err)
{
	_cleanup_fd_ int fd = control_connect(state_fd, CONTROL_PATIENCE_S, err);

	if (fd < 0 || control_send(fd, request, NULL, 0, err) < 0)
		return -1;
	return control_reply(fd, err);
}

int control_text(const void *text, size_t size, struct err *err)
{
	_cleanup_fd_ int fd = memfd_create("moat-request", MFD_CLOEXEC);

	if (fd < 0 || fd_write_full(fd, text, size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, errno, "write a request to the container's monitor");
	return fd_steal(&fd);
}

char *control_ask(int state_fd, enum control_type type, struct err *err)
{
	struct control_request request = { .type = type };
	_cleanup_fd_ int file = control_text("", 0, err);
	_cleanup_fd_ int fd = file < 0 ? -1 : control_connect(state_fd, CONTROL_PATIENCE_S, err);
	char *text;

	if (fd < 0 || control_send(fd, &request, &file, 1, err) < 0 || control_reply(fd, err) < 0)
		return NULL;
	if (lseek(file, 0, SEEK_SET) < 0)
		return err_set(err, errno, "read the answer of the container's monitor"), NULL;
	text = fd_read_text(file, ANSWER_MAX, NULL);
	if (!text)
		err_set(err, errno, "read the answer of the container's monitor");
	return text;
}

void control_remove(int state_fd)
{
	unlinkat(state_fd, SOCKET_NAME, 0);
}
