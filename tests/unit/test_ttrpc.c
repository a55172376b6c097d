/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ttrpc between two well-behaved ends: answers, errors, order, ends, deadlines, large messages. */
#include "ttrpc_fixture.h"

#include "base/fd.h"
#include "base/mem.h"

#include <string.h>
#include <sys/socket.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answer),
		TEST(errors),
		TEST(out_of_order),
		TEST(peer_leaves),
		TEST(free_in_callbacks),
		TEST(deadline),
		TEST(large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
