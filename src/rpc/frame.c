/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ttrpc frames: a buffer each way, and protobuf messages with bounded memory. */
#include "rpc/frame.h"

#include "base/mem.h"
#include "rpc/ttrpc.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A buffer that is empty again and larger than this is given back. */
#define BUFFER_KEPT (64u << 10)
#define READ_ROOM   (4u << 10)

/*
 * What parsing one message may allocate. A sub-message of two bytes becomes an object of some
 * sixty, so the frame's length alone bounds too little.
 */
#define MESSAGE_MEMORY_MAX (16u << 20)

static uint32_t get_u32be(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_u32be(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	p[1] = (uint8_t)(value >> 16);
	p[2] = (uint8_t)(value >> 8);
	p[3] = (uint8_t)value;
}

void frame_buffer_free(struct frame_buffer *buffer)
{
	free(buffer->bytes);
	memset(buffer, 0, sizeof(*buffer));
}

/* Move what waits to the front, and give back a large buffer that nothing waits in. */
static void buffer_compact(struct frame_buffer *buffer)
{
	if (buffer->start == buffer->end) {
		buffer->start = buffer->end = 0;
		if (buffer->capacity > BUFFER_KEPT)
			frame_buffer_free(buffer);
		return;
	}
	if (buffer->start > 0) {
		memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->end - buffer->start);
		buffer->end -= buffer->start;
		buffer->start = 0;
	}
}

static void buffer_reserve(struct frame_buffer *buffer, size_t room, size_t limit)
{
	size_t capacity = buffer->capacity ? buffer->capacity : READ_ROOM * 2;

	if (buffer->capacity - buffer->end >= room)
		return;
	while (capacity - buffer->end < room)
		capacity *= 2;
	if (capacity > limit)
		capacity = limit;
	buffer->bytes = xrealloc(buffer->bytes, capacity, 1);
	buffer->capacity = capacity;
}

ssize_t frame_fill(struct frame_buffer *in, int fd)
{
	ssize_t n;

	buffer_compact(in);
	/* What waits is less than one frame, so that below the limit there is always room. */
	if (in->end + READ_ROOM <= FRAME_HEADER_SIZE + TTRPC_FRAME_MAX)
		buffer_reserve(in, READ_ROOM, FRAME_HEADER_SIZE + TTRPC_FRAME_MAX);
	else
		buffer_reserve(in, FRAME_HEADER_SIZE + TTRPC_FRAME_MAX - in->end,
			       FRAME_HEADER_SIZE + TTRPC_FRAME_MAX);
	do
		n = read(fd, in->bytes + in->end, in->capacity - in->end);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		in->end += (size_t)n;
	return n;
}

int frame_next(struct frame_buffer *in, struct frame *frame, struct err *err)
{
	size_t waiting = in->end - in->start;
	const uint8_t *head;
	uint32_t size;

	if (waiting < FRAME_HEADER_SIZE)
		return 0;
	head = in->bytes + in->start;
	size = get_u32be(head);
	if (size > TTRPC_FRAME_MAX)
		return err_set(err, EMSGSIZE, "receive a ttrpc frame of %u bytes (at most %u)",
			       size, TTRPC_FRAME_MAX);
	if (waiting - FRAME_HEADER_SIZE < size)
		return 0;
	*frame = (struct frame){
		.stream = get_u32be(head + 4),
		.type = head[8],
		.flags = head[9],
		.size = size,
		.body = head + FRAME_HEADER_SIZE,
	};
	in->start += FRAME_HEADER_SIZE + size;
	return 1;
}

int frame_add(struct frame_buffer *out, uint32_t stream, enum frame_type type,
	      const ProtobufCMessage *message, struct err *err)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	uint8_t *head;

	if (size > TTRPC_FRAME_MAX)
		return err_set(err, EMSGSIZE, "send a ttrpc frame of %zu bytes (at most %u)", size,
			       TTRPC_FRAME_MAX);
	buffer_compact(out);
	if (out->end + FRAME_HEADER_SIZE + size > TTRPC_QUEUE_MAX)
		return err_set(err, ENOBUFS, "send to a peer that does not read (%zu bytes queued)",
			       out->end);
	buffer_reserve(out, FRAME_HEADER_SIZE + size, TTRPC_QUEUE_MAX);
	head = out->bytes + out->end;
	put_u32be(head, (uint32_t)size);
	put_u32be(head + 4, stream);
	head[8] = (uint8_t)type;
	head[9] = 0;
	protobuf_c_message_pack(message, head + FRAME_HEADER_SIZE);
	out->end += FRAME_HEADER_SIZE + size;
	return 0;
}

int frame_flush(struct frame_buffer *out, int fd)
{
	while (out->start < out->end) {
		ssize_t n = send(fd, out->bytes + out->start, out->end - out->start,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		out->start += (size_t)n;
	}
	buffer_compact(out);
	return 1;
}

static void *budget_alloc(void *data, size_t size)
{
	size_t *left = data;

	if (size > *left)
		return NULL;
	*left -= size;
	return malloc(size);
}

static void budget_free(void *data, void *p)
{
	free(p);
}

ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes,
				 size_t size)
{
	size_t left = MESSAGE_MEMORY_MAX;
	ProtobufCAllocator allocator = {
		.alloc = budget_alloc,
		.free = budget_free,
		.allocator_data = &left,
	};

	return protobuf_c_message_unpack(descriptor, &allocator, size, bytes);
}

uint8_t *message_pack(const ProtobufCMessage *message, size_t *size)
{
	uint8_t *bytes;

	*size = protobuf_c_message_get_packed_size(message);
	bytes = xcalloc(*size + 1, 1);
	protobuf_c_message_pack(message, bytes);
	return bytes;
}
