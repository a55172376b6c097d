/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of the socket device: reading, writing and ending the descriptor behind a connection.
 * Events are edge-triggered and remembered, so that a descriptor that is ready while the guest is
 * not (or one that hung up) costs nothing.
 */
#include "vmm/vsock_stream.h"

#include "base/fd.h"
#include "vmm/vmm.h"

#include <endian.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BUFFER_FIRST (16u << 10)

struct stream *stream_new(uint32_t port, int fd, uint32_t flags)
{
	struct stream *stream = xcalloc(1, sizeof(*stream));

	stream->state = STREAM_WAITING;
	stream->port = port;
	stream->fd = fd;
	stream->flags = flags;
	stream->source.fd = fd;
	return stream;
}

size_t iov_cut(struct iovec *iov, size_t count, size_t size)
{
	size_t used = 0;

	for (; used < count && size > 0; used++) {
		if (iov[used].iov_len > size)
			iov[used].iov_len = size;
		size -= iov[used].iov_len;
	}
	return used;
}

static void close_descriptor(struct stream *stream, struct loop *loop)
{
	loop_forget(loop, &stream->source);
	fd_replace(&stream->fd, -1);
	stream->read_ended = stream->write_ended = true;
	free(stream->buffer);
	stream->buffer = NULL;
	stream->buffer_size = stream->buffer_used = 0;
}

void stream_free(struct stream *stream, struct loop *loop)
{
	close_descriptor(stream, loop);
	free(stream);
}

int stream_open(struct stream *stream, struct loop *loop, uint32_t guest_port, struct err *err)
{
	uint32_t events = EPOLLET;
	struct err reason;

	stream->guest_port = guest_port;
	stream->read_ended = !(stream->flags & VMM_PORT_READ);
	if (stream->flags & VMM_PORT_READ)
		events |= EPOLLIN | EPOLLRDHUP;
	if (stream->flags & VMM_PORT_WRITE)
		events |= EPOLLOUT;
	if (loop_watch(loop, &stream->source, events, &reason) < 0) {
		if (reason.code != EPERM) {
			if (err)
				*err = reason;
			return -1;
		}
		stream->always_ready = stream->readable = stream->writable = true;
	}
	stream->state = STREAM_OPEN;
	stream->due = DUE_RESPONSE;
	return 0;
}

void stream_note_credit(struct stream *stream, const struct virtio_vsock_hdr *packet)
{
	stream->peer_buffer = le32toh(packet->buf_alloc);
	stream->peer_forwarded = le32toh(packet->fwd_cnt);
}

uint32_t stream_credit(const struct stream *stream)
{
	uint32_t in_flight = stream->sent - stream->peer_forwarded;

	return in_flight < stream->peer_buffer ? stream->peer_buffer - in_flight : 0;
}

/* After a change: let go of the descriptor, and of the entry, when nothing needs them any more. */
static void settle(struct stream *stream, struct loop *loop)
{
	bool no_more_input = stream->state == STREAM_GONE ||
			     (stream->peer_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND);
	bool no_reader =
		stream->state == STREAM_GONE || (stream->peer_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV);

	if (stream->state != STREAM_OPEN && stream->state != STREAM_GONE)
		return;
	if (no_reader && !stream->read_ended) {
		stream->read_ended = true;
		if (stream->flags & VMM_PORT_SOCKET)
			shutdown(stream->fd, SHUT_RD);
	}
	if (no_more_input && !stream->write_ended && stream->buffer_used == 0) {
		stream->write_ended = true;
		if (stream->flags & VMM_PORT_SOCKET)
			shutdown(stream->fd, SHUT_WR);
	}
	if (stream->read_ended && (stream->write_ended || !(stream->flags & VMM_PORT_WRITE)))
		close_descriptor(stream, loop);
	if (no_reader && no_more_input && stream->fd < 0) {
		stream->due = stream->state == STREAM_GONE ? 0 : DUE_RESET;
		stream->state = STREAM_DEAD;
	}
}

void stream_kill(struct stream *stream, struct loop *loop)
{
	stream->due = stream->state == STREAM_OPEN ? DUE_RESET : stream->due & DUE_RESET;
	stream->state = STREAM_DEAD;
	close_descriptor(stream, loop);
}

/* A descriptor that may block: is it ready for one read, or one write of up to PIPE_BUF? */
static bool ready_now(const struct stream *stream, short events)
{
	struct pollfd poll_fd = { .fd = stream->fd, .events = events };

	if (!(stream->flags & VMM_PORT_BLOCKING) || stream->always_ready)
		return true;
	return poll(&poll_fd, 1, 0) > 0;
}

static ssize_t write_some(struct stream *stream, const struct iovec *iov, int count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count };
	struct iovec one = { 0 };
	ssize_t n;

	if (!ready_now(stream, POLLOUT)) {
		errno = EAGAIN;
		return -1;
	}
	if ((stream->flags & VMM_PORT_BLOCKING) && !stream->always_ready) {
		for (int i = 0; i < count && one.iov_len == 0; i++)
			one = iov[i];
		one.iov_len = one.iov_len > PIPE_BUF ? PIPE_BUF : one.iov_len;
		iov = &one;
		count = 1;
	}
	do
		n = stream->flags & VMM_PORT_SOCKET
			    ? sendmsg(stream->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
			    : writev(stream->fd, iov, count);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN && stream->always_ready)
		errno = EIO; /* nobody would tell when to try again */
	return n;
}

/*
 * Writes until all is written or the descriptor takes no more.
 * Returns the number of bytes written, or -1 where the descriptor is broken.
 */
static ssize_t write_ready(struct stream *stream, struct iovec *iov, int count)
{
	size_t done = 0;

	while (stream->writable && count > 0) {
		ssize_t n;

		if (iov->iov_len == 0) {
			iov++;
			count--;
			continue;
		}
		n = write_some(stream, iov, count);
		if (n < 0 && errno != EAGAIN)
			return -1;
		if (n < 0) {
			stream->writable = false;
			break;
		}
		done += (size_t)n;
		for (size_t left = (size_t)n; left > 0;) {
			size_t part = left < iov->iov_len ? left : iov->iov_len;

			iov->iov_base = (uint8_t *)iov->iov_base + part;
			iov->iov_len -= part;
			left -= part;
			if (iov->iov_len == 0) {
				iov++;
				count--;
			}
		}
	}
	return (ssize_t)done;
}

/* The bytes went out: the guest may send as many again; tell it before it has to wait. */
static void note_forwarded(struct stream *stream, uint32_t size)
{
	stream->forwarded += size;
	if (stream->state == STREAM_OPEN &&
	    stream->forwarded - stream->forwarded_told >= VSOCK_BUFFER_MAX / 4)
		stream->due |= DUE_CREDIT;
}

/* Makes room for size more bytes; the caller has checked them against VSOCK_BUFFER_MAX. */
static void buffer_grow(struct stream *stream, uint32_t size)
{
	uint32_t wanted = stream->buffer_size ? stream->buffer_size : BUFFER_FIRST;
	uint8_t *larger;

	while (wanted < stream->buffer_used + size)
		wanted *= 2;
	if (wanted == stream->buffer_size)
		return;
	larger = xcalloc(wanted, 1);
	for (uint32_t i = 0; i < stream->buffer_used;) {
		uint32_t at = (stream->buffer_start + i) % stream->buffer_size;
		uint32_t part = stream->buffer_size - at;

		if (part > stream->buffer_used - i)
			part = stream->buffer_used - i;
		memcpy(larger + i, stream->buffer + at, part);
		i += part;
	}
	free(stream->buffer);
	stream->buffer = larger;
	stream->buffer_size = wanted;
	stream->buffer_start = 0;
}

static void buffer_put(struct stream *stream, const uint8_t *bytes, uint32_t size)
{
	while (size > 0) {
		uint32_t at = (stream->buffer_start + stream->buffer_used) % stream->buffer_size;
		uint32_t part = stream->buffer_size - at;

		if (part > size)
			part = size;
		memcpy(stream->buffer + at, bytes, part);
		stream->buffer_used += part;
		bytes += part;
		size -= part;
	}
}

int stream_write(struct stream *stream, struct loop *loop, const struct iovec *iov, int count,
		 uint32_t size)
{
	struct iovec left[UIO_MAXIOV];
	ssize_t n = 0;

	if (!(stream->flags & VMM_PORT_WRITE) || stream->write_ended ||
	    (stream->peer_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND) || count > UIO_MAXIOV ||
	    size > VSOCK_BUFFER_MAX - stream->buffer_used) {
		stream_kill(stream, loop);
		return -1;
	}
	stream->received += size;
	memcpy(left, iov, (size_t)count * sizeof(*iov));
	if (stream->buffer_used == 0)
		n = write_ready(stream, left, count);
	if (n < 0) {
		stream_kill(stream, loop);
		return -1;
	}
	note_forwarded(stream, (uint32_t)n);
	if ((uint32_t)n == size)
		return 0;
	buffer_grow(stream, size - (uint32_t)n);
	for (int i = 0; i < count; i++) /* write_ready() emptied those that were written */
		buffer_put(stream, left[i].iov_base, (uint32_t)left[i].iov_len);
	return 0;
}

void stream_flush(struct stream *stream, struct loop *loop)
{
	while (stream->buffer_used > 0 && stream->writable) {
		uint32_t first = stream->buffer_size - stream->buffer_start;
		struct iovec iov[2];
		ssize_t n;

		if (first > stream->buffer_used)
			first = stream->buffer_used;
		iov[0] = (struct iovec){ stream->buffer + stream->buffer_start, first };
		iov[1] = (struct iovec){ stream->buffer, stream->buffer_used - first };
		n = write_ready(stream, iov, 2);
		if (n < 0) {
			stream_kill(stream, loop);
			return;
		}
		stream->buffer_start = (stream->buffer_start + (uint32_t)n) % stream->buffer_size;
		stream->buffer_used -= (uint32_t)n;
		note_forwarded(stream, (uint32_t)n);
	}
	if (stream->buffer_used == 0) {
		free(stream->buffer);
		stream->buffer = NULL;
		stream->buffer_size = stream->buffer_start = 0;
	}
	settle(stream, loop);
}

bool stream_wants_read(const struct stream *stream)
{
	return stream->state == STREAM_OPEN && !stream->read_ended && stream->readable &&
	       stream_credit(stream) > 0;
}

uint32_t stream_read(struct stream *stream, struct loop *loop, const struct iovec *iov, int count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count };
	ssize_t n;

	if (!ready_now(stream, POLLIN)) {
		stream->readable = false;
		return 0;
	}
	do
		n = stream->flags & VMM_PORT_SOCKET ? recvmsg(stream->fd, &message, MSG_DONTWAIT)
						    : readv(stream->fd, iov, count);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN && !stream->always_ready) {
		stream->readable = false;
		return 0;
	}
	if (n > 0) {
		stream->sent += (uint32_t)n;
		return (uint32_t)n;
	}
	/* The end; an error (a terminal that hung up, a connection reset) is one, too. */
	stream->read_ended = true;
	stream->due |= DUE_SHUTDOWN;
	settle(stream, loop);
	return 0;
}

void stream_shutdown(struct stream *stream, struct loop *loop, uint32_t flags)
{
	stream->peer_shutdown |= flags & (VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND);
	settle(stream, loop);
}

void stream_gone(struct stream *stream, struct loop *loop)
{
	if (stream->state == STREAM_OPEN) {
		stream->state = STREAM_GONE;
		stream->due = 0;
	} else if (stream->state == STREAM_DEAD) {
		stream->due = 0;
	}
	settle(stream, loop);
}
