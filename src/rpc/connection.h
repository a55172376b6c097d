/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ttrpc connection, as its two halves see it: ttrpc.c (socket, serving) and client.c (calls). */
#pragma once

#include "rpc/frame.h"
#include "rpc/ttrpc.h"

#include <stdbool.h>

/* What a peer's text is cut to before anything is done with it. */
#define TTRPC_TEXT_MAX 512u

/* A call that we made and that has no answer yet. */
struct open_call {
	uint32_t stream;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0: none */
	const ProtobufCMessageDescriptor *response;
	ttrpc_answer_fn answer;
	void *data;
};

struct ttrpc {
	struct loop *loop;
	struct source socket;
	struct source timer; /* the nearest deadline; fd -1 until a call has one */
	const struct ttrpc_method *methods;
	void (*closed)(void *data, const char *text);
	void *data;
	struct frame_buffer in, out;

	struct open_call *calls;
	size_t n_calls, calls_room;
	uint32_t next_stream;

	uint32_t *served; /* streams that we owe an answer on */
	size_t n_served, served_room;
	uint32_t last_served;

	unsigned int depth; /* callbacks we are inside of: the struct must outlive them */
	bool ended;	    /* nothing is read or sent any more; closed() is due or done */
	bool freed;	    /* by the owner: no callback any more */
	char text[ERR_TEXT_MAX];
};

/* connection_enter(), connection_leave() - around callbacks; leave may free the connection. */
void connection_enter(struct ttrpc *connection);
void connection_leave(struct ttrpc *connection);

/* connection_send() - queue a frame and send what can be sent now. 0, or -1 with err set. */
int connection_send(struct ttrpc *connection, uint32_t stream, enum frame_type type,
		    const ProtobufCMessage *message, struct err *err);

/* client_answer() - a response frame came. Returns 0, or -1 with err set where it is nonsense. */
int client_answer(struct ttrpc *connection, const struct frame *frame, struct err *err);

/* client_fail_all() - answer every open call with TTRPC_UNAVAILABLE. */
void client_fail_all(struct ttrpc *connection);
