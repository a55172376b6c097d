/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Further processes as the monitor sees them; this test is also the client. */
#include "monitor_host.h"

#include "base/fd.h"
#include "vm/execution.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

static int client = -1;

static int teardown(void **state)
{
	fd_replace(&client, -1);
	return host_teardown(state);
}

/* Asks for a process with output to a pipe; the client's end is in `client`. */
static void ask_saying(const char *texts, uint32_t size, uint32_t said, bool output)
{
	struct control_request request = { .type = CONTROL_EXEC, .size = said };
	int fds[CONTROL_DESCRIPTORS], pair[2], pipes[2];
	struct err err;

	for (int i = 0; i < CONTROL_DESCRIPTORS; i++)
		fds[i] = -1;
	fds[0] = control_text(texts, size, &err);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	if (output) {
		request.stream[1] = (struct control_stream){ true, VMM_PORT_WRITE };
		fds[1] = pipes[1];
	} else {
		close(pipes[1]);
	}
	close(pipes[0]);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK, pair), 0);
	fd_replace(&client, pair[0]);
	execution_begin(&monitor, &request, pair[1], fds);
	for (int i = 0; i < CONTROL_DESCRIPTORS; i++)
		fd_replace(&fds[i], -1);
	host_run();
}

static void ask(const char *texts, uint32_t size, bool output)
{
	ask_saying(texts, size, size, output);
}

#define TEXTS	   "u\0\0{}"
#define TEXTS_SIZE 6u

static void answer_wait(size_t index, uint32_t status)
{
	Moat__Agent__WaitResponse response = MOAT__AGENT__WAIT_RESPONSE__INIT;

	response.status = status;
	answer_with(index, &response.base);
}

static void expect_end(uint32_t status)
{
	struct control_end end;

	assert_int_equal(recv(client, &end, sizeof(end), 0), sizeof(end));
	assert_int_equal(end.status, status);
	assert_int_equal(recv(client, &end, sizeof(end), 0), 0);
}

static void test_status_after_output(void **state)
{
	char call[64];
	uint32_t port;

	ask(TEXTS, TEXTS_SIZE, true);
	port = expect_port();
	snprintf(call, sizeof(call), "Exec e1 u  {} 0 %u 0", port);
	expect_seen(0, call);
	expect_silence(client);
	answer(0);
	expect_reply(client, "");
	expect_seen(1, "Wait e1");
	answer_wait(1, 300); /* a status is a byte */
	expect_silence(client);
	execution_port_closed(&monitor, port - 1);
	expect_silence(client);
	execution_port_closed(&monitor, port);
	expect_end(300 & 0xff);
	host_run();
	expect_seen(2, "DeleteProcess e1");
	assert_null(monitor.executions);
	assert_int_equal(monitor.n_executions, 0);
}

static void test_output_first(void **state)
{
	ask(TEXTS, TEXTS_SIZE, true);
	answer(0);
	expect_reply(client, "");
	execution_port_closed(&monitor, expect_port());
	expect_silence(client);
	answer_wait(1, 3);
	expect_end(3);
}

static void test_refused_by_the_guest(void **state)
{
	uint32_t port;

	ask(TEXTS, TEXTS_SIZE, true);
	port = expect_port();
	refuse(0, TTRPC_NOT_FOUND, "no such \x1b[2J program");
	expect_reply(client, "no such \\x1b[2J program");
	expect_vmm(VMM_REQUEST_PORT_REMOVE, port);
	refuse(1, TTRPC_NOT_FOUND, "no process e1");
	assert_null(monitor.executions);
}

/* An answer of another kind than the one asked for. */
static void test_nonsense(void **state)
{
	Moat__Agent__StatsResponse nonsense = MOAT__AGENT__STATS_RESPONSE__INIT;

	nonsense.stats = (char *)"x";
	ask(TEXTS, TEXTS_SIZE, false);
	answer_with(0, &nonsense.base);
	expect_reply(client, "not a moat.agent.ExecResponse");
	answer_wait(1, 0); /* and there was one, after all */
	expect_seen(2, "DeleteProcess e1");
	assert_null(monitor.executions);
}

static void test_end_before_the_beginning(void **state)
{
	uint32_t port;
	char byte;

	ask(TEXTS, TEXTS_SIZE, true);
	port = expect_port();
	answer_wait(1, 0);
	expect_vmm(VMM_REQUEST_PORT_REMOVE, port);
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	answer(0);
	assert_null(monitor.executions);
}

static void test_status_that_never_comes(void **state)
{
	char byte;

	ask(TEXTS, TEXTS_SIZE, false);
	answer(0);
	expect_reply(client, "");
	refuse(1, TTRPC_INTERNAL, "I forgot");
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	assert_null(monitor.executions);
}

static void test_client_that_goes_away(void **state)
{
	ask(TEXTS, TEXTS_SIZE, false);
	fd_replace(&client, -1);
	host_run();
	assert_int_equal(n_seen, 2); /* what is not there yet cannot be killed */
	answer(0);
	expect_seen(2, "Signal e1 9");
	ask(TEXTS, TEXTS_SIZE, false);
	answer(3);
	expect_reply(client, "");
	fd_replace(&client, -1);
	host_run();
	expect_seen(5, "Signal e2 9");
	answer_wait(1, 137);
	answer_wait(4, 137);
	assert_null(monitor.executions);
}

static void test_signals_and_sizes(void **state)
{
	struct control_request requests[] = {
		{ .type = CONTROL_KILL, .signal = SIGTERM },
		{ .type = CONTROL_KILL, .signal = 0 },
		{ .type = CONTROL_KILL, .signal = 1000 },
		{ .type = CONTROL_RESIZE, .rows = 70000, .columns = 1 },
		{ .type = CONTROL_START },
		{ .type = CONTROL_RESIZE, .rows = 24, .columns = 80 },
	};

	ask(TEXTS, TEXTS_SIZE, false);
	answer(0);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++)
		assert_int_equal(send(client, &requests[i], sizeof(requests[i]), 0),
				 sizeof(requests[i]));
	host_run();
	host_run();
	expect_seen(2, "Signal e1 15");
	expect_seen(3, "Resize e1 24 80");
	assert_int_equal(n_seen, 4);
}

static void test_bad_requests(void **state)
{
	ask("u", 2, false);
	expect_reply(client, "missing");
	ask_saying(TEXTS, TEXTS_SIZE, 100, false);
	expect_reply(client, "shorter");
	ask_saying(TEXTS, TEXTS_SIZE, UINT32_MAX, false);
	expect_reply(client, "4294967295");
	monitor.phase = PHASE_DRAINING;
	ask(TEXTS, TEXTS_SIZE, false);
	expect_reply(client, "not running");
	assert_int_equal(n_seen, 0);
	assert_null(monitor.executions);
}

static void test_too_many(void **state)
{
	int clients[EXECUTIONS_MAX];

	for (unsigned int i = 0; i < EXECUTIONS_MAX; i++) {
		n_seen = 0;
		ask(TEXTS, TEXTS_SIZE, false);
		clients[i] = client;
		client = -1;
	}
	ask(TEXTS, TEXTS_SIZE, false);
	expect_reply(client, "128 processes");
	for (unsigned int i = 0; i < EXECUTIONS_MAX; i++)
		close(clients[i]);
}

static void test_connection_that_ends(void **state)
{
	char byte;

	ask(TEXTS, TEXTS_SIZE, false);
	answer(0);
	expect_reply(client, "");
	ttrpc_free(steal(agent));
	host_run();
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	assert_null(monitor.executions);
}

/* A workload that could tell the next port from earlier ones would be there before the agent. */
static void test_ports_are_not_to_be_guessed(void **state)
{
	uint32_t ports[8];

	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		ask(TEXTS, TEXTS_SIZE, true);
		ports[i] = expect_port();
		assert_true(ports[i] > VMM_PORT_FIRST + 3);
		for (size_t j = 0; j < i; j++) /* by chance in one of some ten million runs */
			assert_true(ports[i] - ports[j] > 3 && ports[j] - ports[i] > 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, teardown)
		TEST(test_status_after_output),
		TEST(test_output_first),
		TEST(test_refused_by_the_guest),
		TEST(test_nonsense),
		TEST(test_end_before_the_beginning),
		TEST(test_status_that_never_comes),
		TEST(test_client_that_goes_away),
		TEST(test_signals_and_sizes),
		TEST(test_bad_requests),
		TEST(test_too_many),
		TEST(test_ports_are_not_to_be_guessed),
		TEST(test_connection_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
