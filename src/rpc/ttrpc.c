/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ttrpc connection: its socket, its end, and the calls that it serves. Nothing is reported from
 * inside a function that the owner called: a failure there shuts the socket down, and the loop
 * then finds it ended and says so.
 */
#include "rpc/ttrpc.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "rpc/connection.h"
#include "rpc/ttrpc.pb-c.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

void connection_enter(struct ttrpc *connection)
{
	connection->depth++;
}

void connection_leave(struct ttrpc *connection)
{
	if (--connection->depth > 0 || !connection->freed)
		return;
	frame_buffer_free(&connection->in);
	frame_buffer_free(&connection->out);
	free(connection->calls);
	free(connection->served);
	free(connection);
}

static void close_source(struct loop *loop, struct source *source)
{
	loop_forget(loop, source);
	fd_replace(&source->fd, -1);
}

void ttrpc_free(struct ttrpc *connection)
{
	if (!connection || connection->freed)
		return;
	connection_enter(connection);
	connection->freed = true;
	connection->ended = true;
	close_source(connection->loop, &connection->socket);
	close_source(connection->loop, &connection->timer);
	connection_leave(connection);
}

/* Stops it; the loop calls closed() soon. Later calls are ignored. */
static void connection_end(struct ttrpc *connection, const char *text)
{
	if (connection->ended)
		return;
	connection->ended = true;
	snprintf(connection->text, sizeof(connection->text), "%s", text);
	/* Makes the socket ready, whatever was watched, so that connection_ready() finishes. */
	shutdown(connection->socket.fd, SHUT_RDWR);
	loop_watch(connection->loop, &connection->socket, EPOLLIN | EPOLLOUT, NULL);
}

/* The connection has ended: tell everybody who waits, once. */
static void finish(struct ttrpc *connection)
{
	if (connection->freed || connection->socket.fd < 0)
		return;
	close_source(connection->loop, &connection->socket);
	close_source(connection->loop, &connection->timer);
	client_fail_all(connection);
	if (!connection->freed && connection->closed)
		connection->closed(connection->data, connection->text);
}

static void watch(struct ttrpc *connection)
{
	bool waiting = connection->out.start < connection->out.end;
	struct err err;

	if (loop_watch(connection->loop, &connection->socket, EPOLLIN | (waiting ? EPOLLOUT : 0),
		       &err) < 0)
		connection_end(connection, err.text);
}

static void flush(struct ttrpc *connection)
{
	struct err err;

	if (frame_flush(&connection->out, connection->socket.fd) < 0) {
		err_set(&err, errno, "send to the other end of the ttrpc connection");
		connection_end(connection, err.text);
		return;
	}
	watch(connection);
}

int connection_send(struct ttrpc *connection, uint32_t stream, enum frame_type type,
		    const ProtobufCMessage *message, struct err *err)
{
	bool idle = connection->out.start == connection->out.end;

	if (connection->ended)
		return err_set(err, EPIPE, "send over a ttrpc connection that has ended");
	if (frame_add(&connection->out, stream, type, message, err) < 0) {
		if (err->code != EMSGSIZE)
			connection_end(connection, err->text);
		return -1;
	}
	if (idle)
		flush(connection);
	return 0;
}

/* Take a stream off the list of those that wait for our answer; false where it is not there. */
static bool served_take(struct ttrpc *connection, uint32_t stream)
{
	for (size_t i = 0; i < connection->n_served; i++) {
		if (connection->served[i] != stream)
			continue;
		connection->served[i] = connection->served[--connection->n_served];
		return true;
	}
	return false;
}

static int served_add(struct ttrpc *connection, uint32_t stream, struct err *err)
{
	if (stream % 2 == 0 || stream <= connection->last_served)
		return err_set(err, EPROTO, "receive a ttrpc request on stream %u after %u", stream,
			       connection->last_served);
	if (connection->n_served == TTRPC_CALLS_MAX)
		return err_set(err, ENOBUFS, "receive a ttrpc request while %u wait for an answer",
			       TTRPC_CALLS_MAX);
	if (connection->n_served == connection->served_room) {
		connection->served_room = connection->served_room * 2 + 16;
		connection->served = xrealloc(connection->served, connection->served_room,
					      sizeof(connection->served[0]));
	}
	connection->served[connection->n_served++] = stream;
	connection->last_served = stream;
	return 0;
}

/* Send a response: the payload, or the code and text of an error. */
static int send_response(struct ttrpc_call call, const uint8_t *payload, size_t size,
			 enum ttrpc_code code, const char *text, struct err *err)
{
	Moat__Ttrpc__Response envelope = MOAT__TTRPC__RESPONSE__INIT;
	Moat__Ttrpc__Status status = MOAT__TTRPC__STATUS__INIT;
	char bounded[ERR_TEXT_MAX];

	envelope.payload.data = (uint8_t *)payload;
	envelope.payload.len = size;
	if (code != TTRPC_OK) {
		snprintf(bounded, sizeof(bounded), "%s", text);
		status.code = (int32_t)code;
		status.message = bounded;
		envelope.status = &status;
	}
	return connection_send(call.connection, call.stream, FRAME_RESPONSE, &envelope.base, err);
}

void ttrpc_reply(struct ttrpc_call call, const ProtobufCMessage *response)
{
	_cleanup_free_ uint8_t *payload = NULL;
	struct err err;
	size_t size;

	if (call.connection->ended || !served_take(call.connection, call.stream))
		return;
	payload = message_pack(response, &size);
	if (send_response(call, payload, size, TTRPC_OK, NULL, &err) < 0 && err.code == EMSGSIZE)
		send_response(call, NULL, 0, TTRPC_INTERNAL, err.text, &err);
}

void ttrpc_reply_error(struct ttrpc_call call, enum ttrpc_code code, const char *text)
{
	struct err err;

	if (call.connection->ended || !served_take(call.connection, call.stream))
		return;
	send_response(call, NULL, 0, code, text, &err);
}

static const struct ttrpc_method *find_method(const struct ttrpc_method *methods,
					      const Moat__Ttrpc__Request *request)
{
	for (const struct ttrpc_method *method = methods; method && method->name; method++)
		if (str_eq(method->service, request->service) &&
		    str_eq(method->name, request->method))
			return method;
	return NULL;
}

static void reply_unknown(struct ttrpc_call call, const Moat__Ttrpc__Request *request)
{
	char service[128], name[128], text[320];

	str_escape(request->service, strlen(request->service), service, sizeof(service));
	str_escape(request->method, strlen(request->method), name, sizeof(name));
	snprintf(text, sizeof(text), "no method %s of service %s here", name, service);
	ttrpc_reply_error(call, TTRPC_UNIMPLEMENTED, text);
}

static void serve(struct ttrpc_call call, const Moat__Ttrpc__Request *request)
{
	const struct ttrpc_method *method = find_method(call.connection->methods, request);
	ProtobufCMessage *message;
	char text[128];

	if (!method) {
		reply_unknown(call, request);
		return;
	}
	message = message_unpack(method->request, request->payload.data, request->payload.len);
	if (!message) {
		snprintf(text, sizeof(text), "parse the request of %s: not a %s", method->name,
			 method->request->name);
		ttrpc_reply_error(call, TTRPC_INVALID_ARGUMENT, text);
		return;
	}
	method->serve(call.connection->data, call, message);
	protobuf_c_message_free_unpacked(message, NULL);
}

static int handle_request(struct ttrpc *connection, const struct frame *frame, struct err *err)
{
	struct ttrpc_call call = { .connection = connection, .stream = frame->stream };
	Moat__Ttrpc__Request *request;

	if (served_add(connection, frame->stream, err) < 0)
		return -1;
	if (frame->flags != 0) {
		ttrpc_reply_error(call, TTRPC_UNIMPLEMENTED, "streaming calls are not served here");
		return 0;
	}
	request = (Moat__Ttrpc__Request *)message_unpack(&moat__ttrpc__request__descriptor,
							 frame->body, frame->size);
	if (!request)
		return err_set(err, EPROTO, "parse a ttrpc request of %zu bytes", frame->size);
	serve(call, request);
	protobuf_c_message_free_unpacked(&request->base, NULL);
	return 0;
}

static int handle_frame(struct ttrpc *connection, const struct frame *frame, struct err *err)
{
	switch (frame->type) {
	case FRAME_REQUEST:
		return handle_request(connection, frame, err);
	case FRAME_RESPONSE:
		return client_answer(connection, frame, err);
	default:
		return err_set(err, EPROTO, "receive a ttrpc frame of type %u", frame->type);
	}
}

static void receive(struct ttrpc *connection)
{
	ssize_t n = frame_fill(&connection->in, connection->socket.fd);
	struct frame frame;
	struct err err;
	int r = 0;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0) {
		err_set(&err, errno, "receive from the other end of the ttrpc connection");
		connection_end(connection, err.text);
		return;
	}
	while (!connection->ended && (r = frame_next(&connection->in, &frame, &err)) > 0) {
		r = handle_frame(connection, &frame, &err);
		if (r < 0)
			break;
	}
	if (r < 0)
		connection_end(connection, err.text);
	else if (n == 0)
		connection_end(connection, connection->in.start < connection->in.end
						   ? "the ttrpc connection ended within a frame"
						   : "");
}

static int connection_ready(struct source *source, uint32_t events, struct err *err)
{
	struct ttrpc *connection = source->data;

	connection_enter(connection);
	if (!connection->ended && events & EPOLLOUT)
		flush(connection);
	if (!connection->ended && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(connection);
	if (connection->ended)
		finish(connection);
	connection_leave(connection);
	return 0;
}

struct ttrpc *ttrpc_new(struct loop *loop, int fd, const struct ttrpc_method *methods,
			void (*closed)(void *data, const char *text), void *data, struct err *err)
{
	struct ttrpc *connection = xcalloc(1, sizeof(*connection));
	int flags = fcntl(fd, F_GETFL);

	*connection = (struct ttrpc){
		.loop = loop,
		.socket = { .fd = fd, .ready = connection_ready, .data = connection },
		.timer = { .fd = -1 },
		.methods = methods,
		.closed = closed,
		.data = data,
		.next_stream = 1,
	};
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err_set(err, errno, "make the ttrpc socket non-blocking");
		ttrpc_free(connection);
		return NULL;
	}
	if (loop_watch(loop, &connection->socket, EPOLLIN, err) < 0) {
		ttrpc_free(connection);
		return NULL;
	}
	return connection;
}
