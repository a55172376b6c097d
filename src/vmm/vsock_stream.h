/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One stream of the socket device: the guest's connection to a port and the descriptor behind it.
 * Knows descriptors, credit and ends of streams; knows no queue.
 */
#pragma once

#include "base/loop.h"
#include "vmm/vsock.h"

#include <linux/virtio_vsock.h>
#include <stdbool.h>
#include <sys/uio.h>

enum stream_state {
	STREAM_WAITING, /* a port that the guest has not connected to */
	STREAM_OPEN,
	STREAM_GONE, /* the guest has forgotten the connection; its last bytes are on their way */
	STREAM_DEAD, /* over; a reset may be due, then the entry goes */
};

/* Packets that the guest is to get as soon as it gives buffers. */
enum stream_due {
	DUE_RESPONSE = 1 << 0,
	DUE_CREDIT = 1 << 1,
	DUE_SHUTDOWN = 1 << 2,
	DUE_RESET = 1 << 3,
};

struct stream {
	enum stream_state state;
	uint32_t port, guest_port;
	uint32_t flags; /* enum vmm_port_flags */
	uint32_t due;	/* enum stream_due */
	bool silent;	/* the monitor removed it: nobody is told of its end */

	int fd; /* -1: closed */
	struct source source;
	/*
	 * What is known of the descriptor: set by an (edge-triggered) event, cleared by EAGAIN.
	 * always_ready: epoll cannot watch it (a regular file, /dev/null).
	 */
	bool readable, writable, always_ready;
	bool read_ended;  /* end of file, or the guest does not want more */
	bool write_ended; /* the guest's last byte was delivered and the end passed on */

	/* Credit (5.10.6.3): free-running counts of bytes. */
	uint32_t received, forwarded, forwarded_told; /* guest to host */
	uint32_t sent, peer_forwarded, peer_buffer;   /* host to guest */
	uint32_t peer_shutdown;			      /* VIRTIO_VSOCK_SHUTDOWN_ flags it sent */

	/* A ring of bytes that the descriptor did not take yet. */
	uint8_t *buffer;
	uint32_t buffer_size, buffer_start, buffer_used;
};

/* stream_new() - an entry for a port; owns fd. */
struct stream *stream_new(uint32_t port, int fd, uint32_t flags);
void stream_free(struct stream *stream, struct loop *loop);

/* stream_open() - the guest connects: watch the descriptor. Returns 0, or -1 with err set. */
int stream_open(struct stream *stream, struct loop *loop, uint32_t guest_port, struct err *err);

/* stream_note_credit() - every packet of the guest says how much it can take. */
void stream_note_credit(struct stream *stream, const struct virtio_vsock_hdr *packet);

/* stream_credit() - how many bytes the guest takes now. */
uint32_t stream_credit(const struct stream *stream);

/*
 * stream_write() - the guest's bytes, checked against its credit. What the descriptor does not take
 * is copied. Returns 0; -1 where the guest broke the rules or the descriptor: the stream is dead.
 */
int stream_write(struct stream *stream, struct loop *loop, const struct iovec *iov, int count,
		 uint32_t size);

/* stream_flush() - write what is kept, as far as the descriptor takes it; then pass on the end. */
void stream_flush(struct stream *stream, struct loop *loop);

/*
 * stream_read() - bytes for the guest, straight into its buffers.
 * Returns how many; 0 where there are none now or no more (the end is noted).
 */
uint32_t stream_read(struct stream *stream, struct loop *loop, const struct iovec *iov, int count);

/* stream_wants_read() - whether stream_read() may give something. */
bool stream_wants_read(const struct stream *stream);

/* stream_shutdown() - the guest will not receive, or not send, any more. */
void stream_shutdown(struct stream *stream, struct loop *loop, uint32_t flags);

/* stream_gone() - the guest reset the connection, or itself: deliver what it had sent. */
void stream_gone(struct stream *stream, struct loop *loop);

/* stream_kill() - end it at once: bytes kept are lost, the guest gets a reset. */
void stream_kill(struct stream *stream, struct loop *loop);

/* iov_cut() - cut a list of parts down to size bytes. Returns how many parts are left. */
size_t iov_cut(struct iovec *iov, size_t count, size_t size);
