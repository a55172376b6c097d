/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of ttrpc share. */
#include "ttrpc_fixture.h"

#include "loop_alarm.h"

#include "base/fd.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool run(struct fixture *f, unsigned int ms)
{
	return loop_run_for(&f->loop, ms);
}

static void on_closed(void *data, const char *text)
{
	struct fixture *f = data;

	f->closed++;
	snprintf(f->closed_text, sizeof(f->closed_text), "%s", text);
	loop_quit(&f->loop);
}

void on_answer(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
{
	struct answer *answer = data;

	answer->count++;
	answer->code = code;
	snprintf(answer->text, sizeof(answer->text), "%s", text);
	if (response && response->descriptor == &moat__agent__hello_response__descriptor)
		answer->version = ((const Moat__Agent__HelloResponse *)response)->version;
	if (answer->fixture->free_in_callback) {
		ttrpc_free(answer->fixture->client);
		answer->fixture->client = NULL;
	}
	if (answer->quit)
		loop_quit(&answer->fixture->loop);
}

/* Answers with the low bits of the clock in the request, so that answers can be told apart. */
static void serve_hello(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__HelloRequest *request = (const Moat__Agent__HelloRequest *)message;
	Moat__Agent__HelloResponse response = MOAT__AGENT__HELLO_RESPONSE__INIT;

	response.version = (uint32_t)request->realtime_ns;
	response.kernel = request->hostname;
	ttrpc_reply(call, &response.base);
	ttrpc_reply(call, &response.base); /* a second answer goes nowhere */
}

static void serve_wait(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	struct fixture *f = data;

	assert_true(f->n_kept < TTRPC_CALLS_MAX);
	f->kept[f->n_kept++] = call;
}

static void serve_signal(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	ttrpc_reply_error(call, TTRPC_NOT_FOUND, "no container \x1b[31mred\n");
}

static void serve_delete(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	struct fixture *f = data;

	ttrpc_free(f->server);
	f->server = NULL;
}

static const struct ttrpc_method methods[] = {
	{ SERVICE, "Hello", &moat__agent__hello_request__descriptor, serve_hello },
	{ SERVICE, "Wait", &moat__agent__process_request__descriptor, serve_wait },
	{ SERVICE, "Signal", &moat__agent__signal_request__descriptor, serve_signal },
	{ SERVICE, "DeleteContainer", &moat__agent__container_request__descriptor, serve_delete },
	{ 0 },
};

int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct err err;

	*state = f;
	assert_int_equal(loop_init(&f->loop, &err), 0);
	assert_int_equal(fd_socketpair(SOCK_STREAM, f->pair), 0);
	return 0;
}

int teardown(void **state)
{
	struct fixture *f = *state;

	ttrpc_free(f->client);
	ttrpc_free(f->server);
	fd_replace(&f->pair[0], -1);
	fd_replace(&f->pair[1], -1);
	loop_close(&f->loop);
	free(f);
	return 0;
}

void make_server(struct fixture *f)
{
	struct err err;

	f->server = ttrpc_new(&f->loop, fd_steal(&f->pair[1]), methods, on_closed, f, &err);
	assert_non_null(f->server);
}

void make_client(struct fixture *f)
{
	struct err err;

	f->client = ttrpc_new(&f->loop, fd_steal(&f->pair[0]), NULL, on_closed, f, &err);
	assert_non_null(f->client);
}

void call_hello(struct fixture *f, uint32_t number, struct answer *answer)
{
	Moat__Agent__HelloRequest request = MOAT__AGENT__HELLO_REQUEST__INIT;
	struct err err = { 0 };

	request.realtime_ns = number;
	request.hostname = "guest";
	answer->fixture = f;
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Hello", &request.base,
				    &moat__agent__hello_response__descriptor, 0, on_answer, answer,
				    &err),
			 0);
}

void call_wait(struct fixture *f, uint64_t timeout_ms, struct answer *answer)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;
	struct err err = { 0 };

	answer->fixture = f;
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Wait", &request.base,
				    &moat__agent__hello_response__descriptor, timeout_ms, on_answer,
				    answer, &err),
			 0);
}

void put_frame(int fd, uint32_t size, uint32_t stream, uint8_t type, uint8_t flags,
	       const void *body, size_t body_size)
{
	_cleanup_free_ uint8_t *bytes = xcalloc(10 + body_size, 1);
	uint32_t head[2] = { htonl(size), htonl(stream) };

	memcpy(bytes, head, sizeof(head));
	bytes[8] = type;
	bytes[9] = flags;
	memcpy(bytes + 10, body, body_size);
	assert_int_equal(fd_write_full(fd, bytes, 10 + body_size), 0);
}
