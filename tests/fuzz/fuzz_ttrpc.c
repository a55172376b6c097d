/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a hostile peer sends to a ttrpc connection that serves the agent's calls and has made some.
 */
#include "base/fd.h"
#include "base/loop.h"
#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"

#include <stdlib.h>
#include <sys/socket.h>

#define SERVICE	   "moat.agent.Agent"
#define INPUT_MAX  (64u << 10) /* fits a socket's buffer */
#define CALLS	   4
#define KEPT_LIMIT 8

static unsigned int kept;

static void serve_hello(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	ttrpc_reply(call, message);
}

static void serve_create(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__CreateContainerRequest *request =
		(const Moat__Agent__CreateContainerRequest *)message;

	ttrpc_reply_error(call, TTRPC_ALREADY_EXISTS, request->id);
}

/* Some calls stay without an answer, as those of Wait do. */
static void serve_wait(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	if (kept++ % KEPT_LIMIT == 0)
		ttrpc_reply(call, message);
}

static const struct ttrpc_method methods[] = {
	{ SERVICE, "Hello", &moat__agent__hello_request__descriptor, serve_hello },
	{ SERVICE, "CreateContainer", &moat__agent__create_container_request__descriptor,
	  serve_create },
	{ SERVICE, "Wait", &moat__agent__process_request__descriptor, serve_wait },
	{ 0 },
};

static void on_answer(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
{
	if (!response != (code != TTRPC_OK))
		abort();
	++*(unsigned int *)data;
}

static void on_closed(void *data, const char *text)
{
	loop_quit(data);
}

static unsigned int make_calls(struct ttrpc *connection, unsigned int *answers)
{
	const ProtobufCMessageDescriptor *responses[CALLS] = {
		&moat__agent__hello_response__descriptor,
		&moat__agent__wait_response__descriptor,
		&moat__agent__create_container_response__descriptor,
		&moat__agent__create_container_request__descriptor,
	};
	Moat__Agent__Empty request = MOAT__AGENT__EMPTY__INIT;
	struct err err;

	for (int i = 0; i < CALLS; i++)
		if (ttrpc_call(connection, SERVICE, "Call", &request.base, responses[i], 0,
			       on_answer, answers, &err) < 0)
			abort();
	return CALLS;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	unsigned int answers = 0, calls;
	struct ttrpc *connection;
	struct loop loop;
	struct err err;
	int pair[2];

	if (size > INPUT_MAX || loop_init(&loop, &err) < 0 || fd_socketpair(SOCK_STREAM, pair) < 0)
		return -1;
	kept = 0;
	connection = ttrpc_new(&loop, pair[0], methods, on_closed, &loop, &err);
	calls = make_calls(connection, &answers);
	if (fd_write_full(pair[1], bytes, size) < 0)
		abort();
	shutdown(pair[1], SHUT_WR);
	if (loop_run(&loop, &err) < 0 || answers != calls)
		abort();
	ttrpc_free(connection);
	close(pair[1]);
	loop_close(&loop);
	return 0;
}
