/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ttrpc: containerd's small RPC over a stream socket, unary calls only. A frame is a 10-byte header
 * (u32be length, u32be stream id, u8 type, u8 flags) and a protobuf Request or Response. Both ends
 * run on base/loop.h and never block: a call may be answered later and out of order.
 *
 * The other end is hostile: frames are bounded by TTRPC_FRAME_MAX, outstanding calls by
 * TTRPC_CALLS_MAX, and what is queued for a peer that does not read by TTRPC_QUEUE_MAX; beyond, the
 * connection fails.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"

#include <protobuf-c/protobuf-c.h>

#define TTRPC_FRAME_MAX (4u << 20)
#define TTRPC_CALLS_MAX 1024u
#define TTRPC_QUEUE_MAX (8u << 20)

enum ttrpc_code {
	TTRPC_OK = 0,
	TTRPC_INVALID_ARGUMENT = 3,
	TTRPC_DEADLINE_EXCEEDED = 4,
	TTRPC_NOT_FOUND = 5,
	TTRPC_ALREADY_EXISTS = 6,
	TTRPC_PERMISSION_DENIED = 7,
	TTRPC_FAILED_PRECONDITION = 9,
	TTRPC_UNIMPLEMENTED = 12,
	TTRPC_INTERNAL = 13,
	TTRPC_UNAVAILABLE = 14,
};

struct ttrpc;

/*
 * The answer to a call. response: unpacked, freed after the callback; NULL where the call failed:
 * then code and text (printable, bounded) say why, TTRPC_UNAVAILABLE where the connection ended.
 */
typedef void (*ttrpc_answer_fn)(void *data, const ProtobufCMessage *response, uint32_t code,
				const char *text);

/* One call that a server has to answer, now or later, once. */
struct ttrpc_call {
	struct ttrpc *connection;
	uint32_t stream;
};

/*
 * A method of a served service. request: unpacked, freed after the function returns.
 * The function answers through ttrpc_reply() or ttrpc_reply_error(), or keeps a copy of call.
 */
struct ttrpc_method {
	const char *service; /* "moat.agent.Agent" */
	const char *name;    /* "CreateContainer" */
	const ProtobufCMessageDescriptor *request;
	void (*serve)(void *data, struct ttrpc_call call, const ProtobufCMessage *request);
};

/*
 * ttrpc_new() - a connection over a stream socket, which it owns and makes non-blocking.
 * @methods: what this end serves, ended by an entry without a name; NULL: a client only.
 * @closed: called once when the connection has ended or failed (text says why; "" for a clean
 *          end); all open calls have been answered with TTRPC_UNAVAILABLE before. May be NULL.
 *
 * Returns the connection, or NULL with err set (the descriptor is closed then).
 */
struct ttrpc *ttrpc_new(struct loop *loop, int fd, const struct ttrpc_method *methods,
			void (*closed)(void *data, const char *text), void *data, struct err *err);

/*
 * ttrpc_free() - close and forget; open calls get no answer, and kept struct ttrpc_call are void.
 * May be called from any callback. NULL is fine.
 */
void ttrpc_free(struct ttrpc *connection);

/*
 * ttrpc_call() - send a request; answer is called with what comes back.
 * @response: descriptor of the message expected.
 * @timeout_ms: 0 for none; passed to the server, and enforced here (TTRPC_DEADLINE_EXCEEDED).
 *
 * Returns 0, or -1 with err set (answer is not called then).
 */
int ttrpc_call(struct ttrpc *connection, const char *service, const char *method,
	       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *response,
	       uint64_t timeout_ms, ttrpc_answer_fn answer, void *data, struct err *err);

/* ttrpc_reply() - answer a call. A connection that has ended meanwhile is no error. */
void ttrpc_reply(struct ttrpc_call call, const ProtobufCMessage *response);
void ttrpc_reply_error(struct ttrpc_call call, enum ttrpc_code code, const char *text);
