/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ttrpc frames over a non-blocking stream: cutting what comes in into frames, queueing what goes
 * out. Memory grows with bytes that have arrived, never with a length that the peer only named.
 */
#pragma once

#include "base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FRAME_HEADER_SIZE 10u

enum frame_type { FRAME_REQUEST = 1, FRAME_RESPONSE = 2 };

struct frame {
	uint32_t stream;
	uint8_t type;
	uint8_t flags;
	size_t size;
	const uint8_t *body; /* in the reader's buffer: valid until it is filled again */
};

/* Bytes from start to end are waiting: to be cut into frames, or to be sent. */
struct frame_buffer {
	uint8_t *bytes;
	size_t capacity, start, end;
};

void frame_buffer_free(struct frame_buffer *buffer);

/* frame_fill() - read(2) once. Returns the number of bytes, 0 at the end; -1 with errno set. */
ssize_t frame_fill(struct frame_buffer *in, int fd);

/*
 * frame_next() - take the next whole frame.
 * Returns 1 with *frame filled in; 0 where more bytes are needed; -1 with err set where the frame
 * is longer than TTRPC_FRAME_MAX.
 */
int frame_next(struct frame_buffer *in, struct frame *frame, struct err *err);

/*
 * frame_add() - queue a frame.
 * Returns 0; -1 with err set, code EMSGSIZE where the message is too long for a frame, ENOBUFS
 * where TTRPC_QUEUE_MAX bytes are waiting already.
 */
int frame_add(struct frame_buffer *out, uint32_t stream, enum frame_type type,
	      const ProtobufCMessage *message, struct err *err);

/* frame_flush() - send what the socket takes. Returns 1: all sent; 0: some left; -1: errno. */
int frame_flush(struct frame_buffer *out, int fd);

/*
 * message_unpack() - parse a hostile message; all that it allocates is bounded, whatever its shape.
 * Returns a message for protobuf_c_message_free_unpacked(message, NULL), or NULL.
 */
ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes,
				 size_t size);

/* message_pack() - returns the encoding, which the caller frees (never NULL), and its size. */
uint8_t *message_pack(const ProtobufCMessage *message, size_t *size);
