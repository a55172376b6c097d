/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Further processes as the monitor sees them: this test is the client, the vmm and the agent, whose
 * answers may be late, missing, or nonsense.
 */
#include "base/fd.h"
#include "rpc/ttrpc.h"
#include "vm/execution.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cmocka.h>

#define CALLS_MAX 64

/* A call that came to the agent, in words: "Exec e1 USER PROCESS", "Signal e1 9". */
struct seen {
	char text[128];
	struct ttrpc_call call;
};

static struct monitor monitor;
static struct machine machine;
static struct container container = { .id = "c" };
static struct ttrpc *agent;
static struct seen seen[CALLS_MAX];
static size_t n_seen;
static int client, vmm;

static void note(struct ttrpc_call call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void note(struct ttrpc_call call, const char *fmt, ...)
{
	va_list ap;

	assert_true(n_seen < CALLS_MAX);
	va_start(ap, fmt);
	vsnprintf(seen[n_seen].text, sizeof(seen[n_seen].text), fmt, ap);
	va_end(ap);
	seen[n_seen++].call = call;
}

static void serve_exec(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ExecRequest *request = (const void *)message;

	note(call, "Exec %s %s %s %s %u %u %u", request->exec_id, request->user, request->cgroup,
	     request->process, request->stdio->stdin_port, request->stdio->stdout_port,
	     request->stdio->stderr_port);
}

static void serve_wait(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	note(call, "Wait %s", ((const Moat__Agent__ProcessRequest *)message)->exec_id);
}

static void serve_delete(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	note(call, "DeleteProcess %s", ((const Moat__Agent__ProcessRequest *)message)->exec_id);
}

static void serve_signal(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__SignalRequest *request = (const void *)message;

	note(call, "Signal %s %u", request->exec_id, request->signal);
}

static void serve_resize(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ResizeTerminalRequest *request = (const void *)message;

	note(call, "Resize %s %u %u", request->exec_id, request->rows, request->columns);
}

#define METHOD(name, request, function)                                                            \
	{                                                                                          \
		"moat.agent.Agent", name, &moat__agent__##request##__descriptor, function          \
	}

static const struct ttrpc_method methods[] = {
	METHOD("Exec", exec_request, serve_exec),
	METHOD("Wait", process_request, serve_wait),
	METHOD("DeleteProcess", process_request, serve_delete),
	METHOD("Signal", signal_request, serve_signal),
	METHOD("ResizeTerminal", resize_terminal_request, serve_resize),
	{ 0 },
};

static void connection_closed(void *data, const char *text)
{
}

static int setup(void **state)
{
	int pair[2];
	struct err err;

	n_seen = 0;
	machine = (struct machine){ .container = &container };
	monitor = (struct monitor){ .machine = &machine,
				    .container = &container,
				    .phase = PHASE_RUNNING,
				    .next_port = 100 };
	client = -1;
	if (loop_init(&monitor.loop, &err) < 0 ||
	    fd_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK, pair) < 0)
		return -1;
	machine.vmm_fd = pair[0];
	vmm = pair[1];
	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return -1;
	monitor.agent = agent_new(&monitor.loop, pair[0], connection_closed, &monitor, &err);
	agent = ttrpc_new(&monitor.loop, pair[1], methods, NULL, NULL, &err);
	return monitor.agent && agent ? 0 : -1;
}

static int stop(struct source *source, uint32_t events, struct err *err)
{
	loop_quit(&monitor.loop);
	return 0;
}

/* Lets all that is ready be done: the last thing that is, is this pipe's end. */
static void run_loop(void)
{
	for (int round = 0; round < 5; round++) {
		struct source source = { .ready = stop };
		struct err err;
		int pair[2];

		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		close(pair[1]);
		source.fd = pair[0];
		assert_int_equal(loop_watch(&monitor.loop, &source, EPOLLIN, &err), 0);
		monitor.loop.quit = false;
		assert_int_equal(loop_run(&monitor.loop, &err), 0);
		loop_forget(&monitor.loop, &source);
		close(pair[0]);
	}
}

/* The agent goes first: calls that are open are then answered, and nothing is left. */
static int teardown(void **state)
{
	ttrpc_free(steal(agent));
	run_loop();
	agent_free(monitor.agent);
	executions_close(&monitor);
	loop_close(&monitor.loop);
	fd_replace(&client, -1);
	fd_replace(&vmm, -1);
	fd_replace(&machine.vmm_fd, -1);
	return 0;
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
	run_loop();
}

static void ask(const char *texts, uint32_t size, bool output)
{
	ask_saying(texts, size, size, output);
}

#define TEXTS	   "u\0\0{}"
#define TEXTS_SIZE 6u

static void expect_seen(size_t index, const char *text)
{
	assert_true(index < n_seen);
	assert_string_equal(seen[index].text, text);
}

static void answer(size_t index)
{
	Moat__Agent__Empty empty = MOAT__AGENT__EMPTY__INIT;

	ttrpc_reply(seen[index].call, &empty.base);
	run_loop();
}

static void answer_wait(size_t index, uint32_t status)
{
	Moat__Agent__WaitResponse response = MOAT__AGENT__WAIT_RESPONSE__INIT;

	response.status = status;
	ttrpc_reply(seen[index].call, &response.base);
	run_loop();
}

static void expect_reply(const char *words)
{
	struct err reply;

	assert_int_equal(recv(client, &reply, sizeof(reply), 0), sizeof(reply));
	if (*words)
		assert_non_null(strstr(reply.text, words));
	else
		assert_string_equal(reply.text, "");
}

static void expect_vmm(uint32_t type, uint32_t port)
{
	struct vmm_request request;
	int fd;

	assert_int_equal(fd_receive(vmm, &request, sizeof(request), &fd, 1), sizeof(request));
	assert_int_equal(request.type, type);
	assert_int_equal(request.port, port);
	assert_int_equal(fd >= 0, type == VMM_REQUEST_PORT_ADD);
	fd_replace(&fd, -1);
}

static void expect_end(uint32_t status)
{
	struct control_end end;

	assert_int_equal(recv(client, &end, sizeof(end), 0), sizeof(end));
	assert_int_equal(end.status, status);
	assert_int_equal(recv(client, &end, sizeof(end), 0), 0);
}

static void expect_silence(void)
{
	char byte;

	assert_int_equal(recv(client, &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
}

static void test_status_after_output(void **state)
{
	ask(TEXTS, TEXTS_SIZE, true);
	expect_vmm(VMM_REQUEST_PORT_ADD, 100);
	expect_seen(0, "Exec e1 u  {} 0 100 0");
	expect_silence();
	answer(0);
	expect_reply("");
	expect_seen(1, "Wait e1");
	answer_wait(1, 300); /* a status is a byte */
	expect_silence();
	execution_port_closed(&monitor, 99);
	expect_silence();
	execution_port_closed(&monitor, 100);
	expect_end(300 & 0xff);
	run_loop();
	expect_seen(2, "DeleteProcess e1");
	assert_null(monitor.executions);
	assert_int_equal(monitor.n_executions, 0);
}

static void test_output_first(void **state)
{
	ask(TEXTS, TEXTS_SIZE, true);
	answer(0);
	expect_reply("");
	execution_port_closed(&monitor, 100);
	expect_silence();
	answer_wait(1, 3);
	expect_end(3);
}

static void test_refused_by_the_guest(void **state)
{
	ask(TEXTS, TEXTS_SIZE, true);
	expect_vmm(VMM_REQUEST_PORT_ADD, 100);
	ttrpc_reply_error(seen[0].call, TTRPC_NOT_FOUND, "no such \x1b[2J program");
	run_loop();
	expect_reply("no such \\x1b[2J program");
	expect_vmm(VMM_REQUEST_PORT_REMOVE, 100);
	assert_null(monitor.executions);
}

/* An answer of another kind than the one asked for. */
static void test_nonsense(void **state)
{
	Moat__Agent__StatsResponse nonsense = MOAT__AGENT__STATS_RESPONSE__INIT;

	nonsense.stats = (char *)"x";
	ask(TEXTS, TEXTS_SIZE, false);
	ttrpc_reply(seen[0].call, &nonsense.base);
	run_loop();
	expect_reply("not a moat.agent.ExecResponse");
	assert_null(monitor.executions);
}

static void test_status_that_never_comes(void **state)
{
	char byte;

	ask(TEXTS, TEXTS_SIZE, false);
	answer(0);
	expect_reply("");
	ttrpc_reply_error(seen[1].call, TTRPC_INTERNAL, "I forgot");
	run_loop();
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	assert_null(monitor.executions);
}

static void test_client_that_goes_away(void **state)
{
	ask(TEXTS, TEXTS_SIZE, false);
	fd_replace(&client, -1);
	run_loop();
	assert_int_equal(n_seen, 1); /* what is not there yet cannot be killed */
	answer(0);
	expect_seen(1, "Signal e1 9");
	expect_seen(2, "Wait e1");
	ask(TEXTS, TEXTS_SIZE, false);
	answer(3);
	expect_reply("");
	fd_replace(&client, -1);
	run_loop();
	expect_seen(5, "Signal e2 9");
	answer_wait(2, 137);
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
	run_loop();
	run_loop();
	expect_seen(2, "Signal e1 15");
	expect_seen(3, "Resize e1 24 80");
	assert_int_equal(n_seen, 4);
}

static void test_bad_requests(void **state)
{
	ask("u", 2, false);
	expect_reply("missing");
	ask_saying(TEXTS, TEXTS_SIZE, 100, false);
	expect_reply("shorter");
	ask_saying(TEXTS, TEXTS_SIZE, UINT32_MAX, false);
	expect_reply("4294967295");
	monitor.phase = PHASE_DRAINING;
	ask(TEXTS, TEXTS_SIZE, false);
	expect_reply("not running");
	monitor.phase = PHASE_RUNNING;
	monitor.next_port = UINT32_MAX;
	ask(TEXTS, TEXTS_SIZE, true);
	expect_reply("no port left");
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
	expect_reply("128 processes");
	for (unsigned int i = 0; i < EXECUTIONS_MAX; i++)
		close(clients[i]);
}

static void test_connection_that_ends(void **state)
{
	char byte;

	ask(TEXTS, TEXTS_SIZE, false);
	answer(0);
	expect_reply("");
	ttrpc_free(steal(agent));
	run_loop();
	assert_int_equal(recv(client, &byte, 1, 0), 0);
	assert_null(monitor.executions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_status_after_output),
		TEST(test_output_first),
		TEST(test_refused_by_the_guest),
		TEST(test_nonsense),
		TEST(test_status_that_never_comes),
		TEST(test_client_that_goes_away),
		TEST(test_signals_and_sizes),
		TEST(test_bad_requests),
		TEST(test_too_many),
		TEST(test_connection_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
