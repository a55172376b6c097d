/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calls that a ttrpc connection makes: their answers, their deadlines. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "rpc/connection.h"
#include "rpc/ttrpc.pb-c.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS_PER_S  1000000000u
#define NS_PER_MS 1000000u

/* The highest code that gRPC, whose codes ttrpc uses, gives a meaning. */
#define CODE_MAX 16

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Set the timer to the nearest deadline, or stop it where no call has one. */
static void arm_timer(struct ttrpc *connection)
{
	struct itimerspec when = { 0 };
	uint64_t nearest = 0;

	if (connection->timer.fd < 0)
		return;
	for (size_t i = 0; i < connection->n_calls; i++) {
		uint64_t deadline = connection->calls[i].deadline_ns;

		if (deadline && (!nearest || deadline < nearest))
			nearest = deadline;
	}
	when.it_value.tv_sec = (time_t)(nearest / NS_PER_S);
	when.it_value.tv_nsec = (long)(nearest % NS_PER_S);
	timerfd_settime(connection->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Take a call off the list and answer it: with the response, or with code and text. */
static void complete(struct ttrpc *connection, size_t index, const ProtobufCMessage *response,
		     uint32_t code, const char *text)
{
	struct open_call call = connection->calls[index];

	connection->calls[index] = connection->calls[--connection->n_calls];
	if (call.deadline_ns && !connection->ended)
		arm_timer(connection);
	call.answer(call.data, response, code, text);
}

void client_fail_all(struct ttrpc *connection)
{
	const char *text = connection->text[0] ? connection->text : "the ttrpc connection ended";

	while (!connection->freed && connection->n_calls > 0)
		complete(connection, 0, NULL, TTRPC_UNAVAILABLE, text);
}

static int timer_ready(struct source *source, uint32_t events, struct err *err)
{
	struct ttrpc *connection = source->data;
	uint64_t expirations, now = now_ns();
	size_t i = 0;

	(void)!read(source->fd, &expirations, sizeof(expirations));
	connection_enter(connection);
	while (!connection->freed && i < connection->n_calls) {
		uint64_t deadline = connection->calls[i].deadline_ns;

		if (deadline && deadline <= now) {
			complete(connection, i, NULL, TTRPC_DEADLINE_EXCEEDED,
				 "no answer came in time");
			i = 0; /* the callback may have made or ended calls */
		} else {
			i++;
		}
	}
	connection_leave(connection);
	return 0;
}

static int make_timer(struct ttrpc *connection, struct err *err)
{
	if (connection->timer.fd >= 0)
		return 0;
	connection->timer = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = timer_ready,
		.data = connection,
	};
	if (connection->timer.fd < 0)
		return err_set(err, errno, "create a timer");
	return loop_watch(connection->loop, &connection->timer, EPOLLIN, err);
}

static void add_call(struct ttrpc *connection, const struct open_call *call)
{
	if (connection->n_calls == connection->calls_room) {
		connection->calls_room = connection->calls_room * 2 + 16;
		connection->calls = xrealloc(connection->calls, connection->calls_room,
					     sizeof(connection->calls[0]));
	}
	connection->calls[connection->n_calls++] = *call;
}

int ttrpc_call(struct ttrpc *connection, const char *service, const char *method,
	       const ProtobufCMessage *request, const ProtobufCMessageDescriptor *response,
	       uint64_t timeout_ms, ttrpc_answer_fn answer, void *data, struct err *err)
{
	Moat__Ttrpc__Request envelope = MOAT__TTRPC__REQUEST__INIT;
	_cleanup_free_ uint8_t *payload = NULL;
	struct open_call call = {
		.stream = connection->next_stream,
		.deadline_ns = timeout_ms ? now_ns() + timeout_ms * NS_PER_MS : 0,
		.response = response,
		.answer = answer,
		.data = data,
	};

	if (connection->n_calls == TTRPC_CALLS_MAX)
		return err_set(err, ENOBUFS, "call %s while %u calls wait for an answer", method,
			       TTRPC_CALLS_MAX);
	if (connection->next_stream > UINT32_MAX - 2)
		return err_set(err, EOVERFLOW, "call %s: the connection has no stream left",
			       method);
	if (timeout_ms && make_timer(connection, err) < 0)
		return err_wrap(err, "call %s", method);
	payload = message_pack(request, &envelope.payload.len);
	envelope.payload.data = payload;
	envelope.service = (char *)service;
	envelope.method = (char *)method;
	envelope.timeout_nano = (int64_t)(timeout_ms * NS_PER_MS);
	if (connection_send(connection, call.stream, FRAME_REQUEST, &envelope.base, err) < 0)
		return err_wrap(err, "call %s", method);
	connection->next_stream += 2;
	add_call(connection, &call);
	if (timeout_ms)
		arm_timer(connection);
	return 0;
}

/* Answer call `index` with what the peer's envelope says. */
static void answer_with(struct ttrpc *connection, size_t index,
			const Moat__Ttrpc__Response *envelope)
{
	const ProtobufCMessageDescriptor *descriptor = connection->calls[index].response;
	const Moat__Ttrpc__Status *status = envelope->status;
	ProtobufCMessage *message;
	char text[TTRPC_TEXT_MAX];

	if (status && status->code != 0) {
		bool known = status->code > 0 && status->code <= CODE_MAX;

		str_escape(status->message, strlen(status->message), text, sizeof(text));
		complete(connection, index, NULL, known ? (uint32_t)status->code : TTRPC_INTERNAL,
			 text);
		return;
	}
	message = message_unpack(descriptor, envelope->payload.data, envelope->payload.len);
	if (!message) {
		snprintf(text, sizeof(text), "the answer is not a %s", descriptor->name);
		complete(connection, index, NULL, TTRPC_INTERNAL, text);
		return;
	}
	complete(connection, index, message, TTRPC_OK, "");
	protobuf_c_message_free_unpacked(message, NULL);
}

int client_answer(struct ttrpc *connection, const struct frame *frame, struct err *err)
{
	Moat__Ttrpc__Response *envelope;
	size_t i = 0;

	while (i < connection->n_calls && connection->calls[i].stream != frame->stream)
		i++;
	if (i == connection->n_calls) {
		/* The answer to a call that timed out comes too late; any other was never made. */
		if (frame->stream % 2 == 1 && frame->stream < connection->next_stream)
			return 0;
		return err_set(err, EPROTO, "receive an answer on stream %u, which has no call",
			       frame->stream);
	}
	envelope = (Moat__Ttrpc__Response *)message_unpack(&moat__ttrpc__response__descriptor,
							   frame->body, frame->size);
	if (!envelope)
		return err_set(err, EPROTO, "parse a ttrpc response of %zu bytes", frame->size);
	answer_with(connection, i, envelope);
	protobuf_c_message_free_unpacked(&envelope->base, NULL);
	return 0;
}
