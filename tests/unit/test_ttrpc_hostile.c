/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ttrpc against a peer that sends nonsense, too much or too little, or does not read. */
#include "ttrpc_fixture.h"

#include "base/fd.h"
#include "base/mem.h"

#include <string.h>
#include <sys/socket.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(byte_by_byte),	   TEST(huge_length),
		TEST(negative_length),	   TEST(even_stream),
		TEST(zero_stream),	   TEST(wrong_type),
		TEST(answer_nobody_asked), TEST(broken_envelope),
		TEST(cut_frame),	   TEST(stream_reused),
		TEST(broken_payload),	   TEST(amplification),
		TEST(too_many_calls),	   TEST(client_call_limit),
		TEST(peer_does_not_read),  TEST(answer_of_wrong_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
