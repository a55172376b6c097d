/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ttrpc over socketpairs: both roles, order, hostile frames, peers that do not read, deadlines. */
#include "base/fd.h"
#include "base/loop.h"
#include "base/mem.h"
#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <cmocka.h>

#define SERVICE "moat.agent.Agent"

/* Everything a test has: a loop with a deadline, and one or two ends. */
struct fixture {
	struct loop loop;
	struct source alarm;
	bool alarmed;
	int pair[2];
	struct ttrpc *client, *server;
	struct ttrpc_call kept[TTRPC_CALLS_MAX];
	size_t n_kept;
	unsigned int closed;
	char closed_text[512];
	bool free_in_callback;
};

struct answer {
	struct fixture *fixture;
	unsigned int count;
	bool quit;
	uint32_t code;
	uint32_t version;
	char text[512];
};

static int on_alarm(struct source *source, uint32_t events, struct err *err)
{
	struct fixture *f = source->data;

	f->alarmed = true;
	loop_quit(&f->loop);
	return 0;
}

/* Run the loop until a callback quits it; false where `ms` pass first. */
static bool run(struct fixture *f, unsigned int ms)
{
	struct itimerspec when = { .it_value = { ms / 1000, ms % 1000 * 1000000L } };
	struct err err = { 0 };

	f->alarmed = false;
	f->loop.quit = false;
	f->alarm = (struct source){ .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
				    .ready = on_alarm,
				    .data = f };
	assert_int_equal(timerfd_settime(f->alarm.fd, 0, &when, NULL), 0);
	assert_int_equal(loop_watch(&f->loop, &f->alarm, EPOLLIN, &err), 0);
	assert_int_equal(loop_run(&f->loop, &err), 0);
	loop_forget(&f->loop, &f->alarm);
	fd_replace(&f->alarm.fd, -1);
	return !f->alarmed;
}

static void on_closed(void *data, const char *text)
{
	struct fixture *f = data;

	f->closed++;
	snprintf(f->closed_text, sizeof(f->closed_text), "%s", text);
	loop_quit(&f->loop);
}

static void on_answer(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
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

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct err err;

	*state = f;
	assert_int_equal(loop_init(&f->loop, &err), 0);
	assert_int_equal(fd_socketpair(SOCK_STREAM, f->pair), 0);
	return 0;
}

static int teardown(void **state)
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

static void make_server(struct fixture *f)
{
	struct err err;

	f->server = ttrpc_new(&f->loop, fd_steal(&f->pair[1]), methods, on_closed, f, &err);
	assert_non_null(f->server);
}

static void make_client(struct fixture *f)
{
	struct err err;

	f->client = ttrpc_new(&f->loop, fd_steal(&f->pair[0]), NULL, on_closed, f, &err);
	assert_non_null(f->client);
}

static void call_hello(struct fixture *f, uint32_t number, struct answer *answer)
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

static void call_wait(struct fixture *f, uint64_t timeout_ms, struct answer *answer)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;
	struct err err = { 0 };

	answer->fixture = f;
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Wait", &request.base,
				    &moat__agent__hello_response__descriptor, timeout_ms, on_answer,
				    answer, &err),
			 0);
}

static void test_answer(void **state)
{
	struct fixture *f = *state;
	struct answer answer = { .quit = true };

	make_client(f);
	make_server(f);
	call_hello(f, 42, &answer);
	assert_true(run(f, 2000));
	assert_int_equal(answer.count, 1);
	assert_int_equal(answer.code, TTRPC_OK);
	assert_int_equal(answer.version, 42);
}

static void test_errors(void **state)
{
	struct fixture *f = *state;
	struct answer refused = { .fixture = f, .quit = true }, unknown = refused;
	Moat__Agent__SignalRequest request = MOAT__AGENT__SIGNAL_REQUEST__INIT;
	struct err err;

	make_client(f);
	make_server(f);
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Signal", &request.base,
				    &moat__agent__empty__descriptor, 0, on_answer, &refused, &err),
			 0);
	assert_true(run(f, 2000));
	assert_int_equal(refused.code, TTRPC_NOT_FOUND);
	assert_string_equal(refused.text, "no container \\x1b[31mred\\x0a");
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Nothing", &request.base,
				    &moat__agent__empty__descriptor, 0, on_answer, &unknown, &err),
			 0);
	assert_true(run(f, 2000));
	assert_int_equal(unknown.code, TTRPC_UNIMPLEMENTED);
	assert_string_equal(unknown.text, "no method Nothing of service moat.agent.Agent here");
}

static void test_out_of_order(void **state)
{
	struct fixture *f = *state;
	struct answer first = { 0 }, second = { .quit = true }, hello = { .quit = true };
	Moat__Agent__HelloResponse response = MOAT__AGENT__HELLO_RESPONSE__INIT;

	make_client(f);
	make_server(f);
	call_wait(f, 0, &first);
	call_wait(f, 0, &second);
	call_hello(f, 3, &hello);
	assert_true(run(f, 2000));
	assert_int_equal(hello.version, 3);
	assert_int_equal(f->n_kept, 2);
	response.version = 2;
	ttrpc_reply(f->kept[1], &response.base);
	assert_true(run(f, 2000));
	assert_int_equal(second.version, 2);
	assert_int_equal(first.count, 0);
	response.version = 1;
	first.quit = true;
	ttrpc_reply(f->kept[0], &response.base);
	assert_true(run(f, 2000));
	assert_int_equal(first.version, 1);
}

static void test_peer_leaves(void **state)
{
	struct fixture *f = *state;
	struct answer first = { 0 }, second = { 0 };

	make_client(f);
	make_server(f);
	call_wait(f, 0, &first);
	call_wait(f, 5000, &second);
	assert_false(run(f, 50));
	ttrpc_free(f->server);
	f->server = NULL;
	assert_true(run(f, 2000));
	assert_int_equal(first.count, 1);
	assert_int_equal(first.code, TTRPC_UNAVAILABLE);
	assert_int_equal(second.code, TTRPC_UNAVAILABLE);
	assert_int_equal(f->closed, 1);
	assert_string_equal(f->closed_text, "");
}

static void test_free_in_callbacks(void **state)
{
	struct fixture *f = *state;
	struct answer answer = { .quit = true }, other = { 0 };
	Moat__Agent__ContainerRequest request = MOAT__AGENT__CONTAINER_REQUEST__INIT;
	struct err err;

	make_client(f);
	make_server(f);
	call_hello(f, 1, &answer);
	call_hello(f, 2, &other);
	f->free_in_callback = true;
	assert_true(run(f, 2000));
	assert_null(f->client);
	assert_int_equal(other.count, 0);

	f->free_in_callback = false;
	ttrpc_free(f->server);
	assert_int_equal(fd_socketpair(SOCK_STREAM, f->pair), 0);
	make_client(f);
	make_server(f);
	f->closed = 0;
	answer.count = 0;
	assert_int_equal(ttrpc_call(f->client, SERVICE, "DeleteContainer", &request.base,
				    &moat__agent__empty__descriptor, 0, on_answer, &answer, &err),
			 0);
	assert_true(run(f, 2000));
	assert_null(f->server);
	assert_int_equal(answer.code, TTRPC_UNAVAILABLE);
}

static void test_deadline(void **state)
{
	struct fixture *f = *state;
	struct answer late = { .quit = true }, later = { .quit = true }, hello = { .quit = true };
	Moat__Agent__HelloResponse response = MOAT__AGENT__HELLO_RESPONSE__INIT;

	make_client(f);
	make_server(f);
	call_wait(f, 800, &later);
	call_wait(f, 30, &late);
	assert_true(run(f, 2000));
	assert_int_equal(late.code, TTRPC_DEADLINE_EXCEEDED);
	assert_int_equal(later.count, 0);
	assert_true(run(f, 2000));
	assert_int_equal(later.code, TTRPC_DEADLINE_EXCEEDED);
	/* Answers that come too late are dropped, and the connection goes on. */
	ttrpc_reply(f->kept[0], &response.base);
	ttrpc_reply(f->kept[1], &response.base);
	call_hello(f, 7, &hello);
	assert_true(run(f, 2000));
	assert_int_equal(hello.version, 7);
	assert_int_equal(late.count, 1);
}

/* A frame as a peer of our own making sends it. */
static void put_frame(int fd, uint32_t size, uint32_t stream, uint8_t type, uint8_t flags,
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

/* Request{service, method, payload}: a Hello with realtime_ns 5 and hostname "ab". */
static const uint8_t hello_request[] =
	"\x0a\x10moat.agent.Agent\x12\x05Hello\x1a\x06\x08\x05\x1a\x02"
	"ab";
#define HELLO_SIZE (sizeof(hello_request) - 1)

static void test_byte_by_byte(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[10 + HELLO_SIZE] = { 0, 0, 0, HELLO_SIZE, 0, 0, 0, 1, 1, 0 };
	uint8_t answer[64];

	make_server(f);
	memcpy(bytes + 10, hello_request, HELLO_SIZE);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(recv(f->pair[0], answer, sizeof(answer), MSG_DONTWAIT), -1);
		assert_int_equal(fd_write_full(f->pair[0], bytes + i, 1), 0);
		assert_false(run(f, 2));
	}
	/* Response{payload: HelloResponse{version 5, kernel "ab"}} on stream 1 */
	assert_int_equal(recv(f->pair[0], answer, sizeof(answer), MSG_DONTWAIT), 18);
	assert_memory_equal(answer,
			    "\0\0\0\x08\0\0\0\x01\x02\0\x12\x06\x08\x05\x12\x02"
			    "ab",
			    18);
}

static void expect_end(struct fixture *f, const char *text)
{
	char byte;

	assert_true(run(f, 2000));
	assert_int_equal(f->closed, 1);
	assert_non_null(strstr(f->closed_text, text));
	errno = 0;
	while (recv(f->pair[0], &byte, 1, MSG_DONTWAIT) > 0)
		;
	assert_int_not_equal(errno, EAGAIN);
}

#define HOSTILE(name, text, ...)                                                                   \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		struct fixture *f = *state;                                                        \
                                                                                                   \
		make_server(f);                                                                    \
		put_frame(f->pair[0], __VA_ARGS__);                                                \
		expect_end(f, text);                                                               \
	}

HOSTILE(huge_length, "4194305 bytes", TTRPC_FRAME_MAX + 1, 1, 1, 0, "", 0)
HOSTILE(negative_length, "4294967295 bytes", UINT32_MAX, 1, 1, 0, "", 0)
HOSTILE(even_stream, "stream 2 after 0", HELLO_SIZE, 2, 1, 0, hello_request, HELLO_SIZE)
HOSTILE(zero_stream, "stream 0 after 0", HELLO_SIZE, 0, 1, 0, hello_request, HELLO_SIZE)
HOSTILE(wrong_type, "type 3", HELLO_SIZE, 1, 3, 0, hello_request, HELLO_SIZE)
HOSTILE(answer_nobody_asked, "which has no call", HELLO_SIZE, 1, 2, 0, hello_request, HELLO_SIZE)
HOSTILE(broken_envelope, "parse a ttrpc request", 4, 1, 1, 0, "\x0a\x7f\x01\x02", 4)

static void test_cut_frame(void **state)
{
	struct fixture *f = *state;

	make_server(f);
	put_frame(f->pair[0], 100, 1, 1, 0, "abc", 3);
	shutdown(f->pair[0], SHUT_WR);
	expect_end(f, "within a frame");
}

static void test_stream_reused(void **state)
{
	struct fixture *f = *state;

	make_server(f);
	put_frame(f->pair[0], HELLO_SIZE, 3, 1, 0, hello_request, HELLO_SIZE);
	put_frame(f->pair[0], HELLO_SIZE, 3, 1, 0, hello_request, HELLO_SIZE);
	expect_end(f, "stream 3 after 3");
}

/* A payload that is not the message is that call's error alone. */
static void test_broken_payload(void **state)
{
	static const uint8_t body[] = "\x0a\x10moat.agent.Agent\x12\x05Hello\x1a\x02\x1a\x7f";
	struct fixture *f = *state;
	char answer[256] = { 0 };

	make_server(f);
	put_frame(f->pair[0], sizeof(body) - 1, 1, 1, 0, body, sizeof(body) - 1);
	put_frame(f->pair[0], HELLO_SIZE, 3, 1, 1, hello_request, HELLO_SIZE);
	assert_false(run(f, 50));
	assert_int_equal(f->closed, 0);
	assert_true(recv(f->pair[0], answer, sizeof(answer), MSG_DONTWAIT) > 60);
	assert_non_null(memmem(answer, sizeof(answer), "parse the request of Hello", 26));
	assert_non_null(memmem(answer, sizeof(answer), "streaming calls", 15));
}

/* Two-byte sub-messages: 4 MiB of them would become some 150 MiB of objects. */
static void test_amplification(void **state)
{
	struct fixture *f = *state;
	size_t size = 1 << 20;
	_cleanup_free_ uint8_t *body = xcalloc(size, 1);

	for (size_t i = 0; i < size; i += 2)
		body[i] = 0x2a; /* metadata, length 0 */
	make_server(f);
	assert_int_equal(setsockopt(f->pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &(int){ 4 << 20 }, 4),
			 0);
	put_frame(f->pair[0], (uint32_t)size, 1, 1, 0, body, size);
	expect_end(f, "parse a ttrpc request of 1048576 bytes");
}

static void test_too_many_calls(void **state)
{
	static const uint8_t body[] = "\x0a\x10moat.agent.Agent\x12\x04Wait";
	struct fixture *f = *state;

	make_server(f);
	for (uint32_t i = 0; i < TTRPC_CALLS_MAX; i++) {
		put_frame(f->pair[0], sizeof(body) - 1, 2 * i + 1, 1, 0, body, sizeof(body) - 1);
		if (i % 64 == 63)
			run(f, 5);
	}
	assert_int_equal(f->n_kept, TTRPC_CALLS_MAX);
	assert_int_equal(f->closed, 0);
	put_frame(f->pair[0], sizeof(body) - 1, 2 * TTRPC_CALLS_MAX + 1, 1, 0, body,
		  sizeof(body) - 1);
	expect_end(f, "while 1024 wait");
}

static void test_client_call_limit(void **state)
{
	struct fixture *f = *state;
	Moat__Agent__Empty request = MOAT__AGENT__EMPTY__INIT;
	struct answer answer = { .fixture = f };
	struct err err;
	int r = 0;

	make_client(f);
	for (uint32_t i = 0; i <= TTRPC_CALLS_MAX && r == 0; i++) {
		r = ttrpc_call(f->client, SERVICE, "Wait", &request.base,
			       &moat__agent__empty__descriptor, 0, on_answer, &answer, &err);
		assert_int_equal(r, i == TTRPC_CALLS_MAX ? -1 : 0);
	}
	assert_int_equal(err.code, ENOBUFS);
	fd_replace(&f->pair[1], -1);
	assert_true(run(f, 2000));
	assert_int_equal(answer.count, TTRPC_CALLS_MAX);
	assert_int_equal(answer.code, TTRPC_UNAVAILABLE);
}

/* Requests are read on and answered into a queue with an end, not into all memory. */
static void test_peer_does_not_read(void **state)
{
	struct fixture *f = *state;
	size_t size = 256 << 10;
	_cleanup_free_ char *name = xcalloc(size + 1, 1);
	struct answer answer = { .fixture = f };
	Moat__Agent__HelloRequest request = MOAT__AGENT__HELLO_REQUEST__INIT;
	struct err err = { 0 };
	int r = 0, calls = 0;

	memset(name, 'x', size);
	request.hostname = name;
	make_client(f);
	while (r == 0 && calls < 1000) {
		r = ttrpc_call(f->client, SERVICE, "Hello", &request.base,
			       &moat__agent__hello_response__descriptor, 0, on_answer, &answer,
			       &err);
		calls++;
	}
	assert_int_equal(r, -1);
	assert_int_equal(err.code, ENOBUFS);
	assert_in_range(calls, TTRPC_QUEUE_MAX / size, TTRPC_QUEUE_MAX / size + 8);
	assert_int_equal(answer.count, 0); /* nothing is reported from inside a call */
	assert_true(run(f, 2000));
	assert_int_equal(answer.count, calls - 1);
	assert_non_null(strstr(f->closed_text, "does not read"));
}

/* A large message goes through a small socket buffer in many parts, both ways. */
static void test_large(void **state)
{
	struct fixture *f = *state;
	size_t size = 3 << 20;
	_cleanup_free_ char *name = xcalloc(size + 1, 1);
	struct answer answer = { .fixture = f, .quit = true }, too_large = answer;
	Moat__Agent__HelloRequest request = MOAT__AGENT__HELLO_REQUEST__INIT;
	struct err err = { 0 };

	memset(name, 'x', size);
	request.hostname = name;
	request.realtime_ns = 9;
	make_client(f);
	make_server(f);
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Hello", &request.base,
				    &moat__agent__hello_response__descriptor, 0, on_answer, &answer,
				    &err),
			 0);
	assert_true(run(f, 5000));
	assert_int_equal(answer.code, TTRPC_OK);
	assert_int_equal(answer.version, 9);

	request.entropy.len = size;
	request.entropy.data = (uint8_t *)name;
	assert_int_equal(ttrpc_call(f->client, SERVICE, "Hello", &request.base,
				    &moat__agent__hello_response__descriptor, 0, on_answer,
				    &too_large, &err),
			 -1);
	assert_int_equal(err.code, EMSGSIZE);
	assert_int_equal(f->closed, 0);
}

static void test_answer_of_wrong_message(void **state)
{
	struct fixture *f = *state;
	struct answer answer = { .quit = true }, odd = { .quit = true };

	make_client(f);
	call_hello(f, 1, &answer);
	put_frame(f->pair[1], 4, 1, 2, 0, "\x12\x02\x08\xff", 4); /* a varint without its end */
	assert_true(run(f, 2000));
	assert_int_equal(answer.code, TTRPC_INTERNAL);
	assert_non_null(strstr(answer.text, "HelloResponse"));
	call_hello(f, 1, &odd);
	/* Status{code -1}: no code that anybody knows */
	put_frame(f->pair[1], 13, 3, 2, 0, "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		  13);
	assert_true(run(f, 2000));
	assert_int_equal(odd.code, TTRPC_INTERNAL);
	assert_int_equal(f->closed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answer),
		TEST(errors),
		TEST(out_of_order),
		TEST(peer_leaves),
		TEST(free_in_callbacks),
		TEST(deadline),
		TEST(byte_by_byte),
		TEST(huge_length),
		TEST(negative_length),
		TEST(even_stream),
		TEST(zero_stream),
		TEST(wrong_type),
		TEST(answer_nobody_asked),
		TEST(broken_envelope),
		TEST(cut_frame),
		TEST(stream_reused),
		TEST(broken_payload),
		TEST(amplification),
		TEST(too_many_calls),
		TEST(client_call_limit),
		TEST(peer_does_not_read),
		TEST(large),
		TEST(answer_of_wrong_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
