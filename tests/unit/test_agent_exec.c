/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Further processes of a container, by the agent. */
#include "agent_host.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PID_NAMESPACE ",{\"type\":\"pid\"}"
#define STREAMS	      3 /* the first that the container has not taken */

/* A container "c" that runs until its input ends. */
static int setup(void **state)
{
	struct reply reply;
	struct host *host;

	if (host_missing())
		return 0;
	*state = host = xcalloc(1, sizeof(*host));
	host_start(host);
	return host_create(host, "c", PID_NAMESPACE, "cat", false, &reply) != TTRPC_OK ||
	       host_start_container(host, "c") != TTRPC_OK;
}

static int teardown(void **state)
{
	if (!*state)
		return 0;
	if (host_stop(*state) != 0)
		fail_msg("the agent did not end well");
	free(*state);
	return 0;
}

static void end_container(struct host *host)
{
	fd_replace(&host->streams[0], -1);
	assert_int_equal(host_wait(host, "c"), 0);
}

static uint32_t delete_process(struct host *host, const char *exec_id)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)"c";
	request.exec_id = (char *)exec_id;
	return host_call(host, "DeleteProcess", &request.base, &reply);
}

static void test_output_and_status(void **state)
{
	struct host *host = host_of(state);
	char *out, *error;
	struct reply reply;

	assert_int_equal(host_exec(host, "e", "echo $$ in; cat; echo bad >&2; exit 9", false,
				   STREAMS, &reply),
			 TTRPC_OK);
	assert_int_equal(fd_write_full(host->streams[STREAMS], "more\n", 5), 0);
	fd_replace(&host->streams[STREAMS], -1);
	assert_int_equal(host_wait_exec(host, "e"), 9);
	out = host_read(host, STREAMS + 1);
	error = host_read(host, STREAMS + 2);
	assert_non_null(strstr(out, " in\nmore\n"));
	assert_true(out[0] > '1' && out[0] <= '9'); /* a pid of the container's namespace */
	assert_string_equal(error, "bad\n");
	free(out);
	free(error);
	assert_int_equal(delete_process(host, "e"), TTRPC_OK);
	assert_int_equal(host_wait_exec(host, "e"), -1);
	end_container(host);
}

static uint32_t signal_exec(struct host *host, const char *exec_id, uint32_t signal)
{
	Moat__Agent__SignalRequest request = MOAT__AGENT__SIGNAL_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)"c";
	request.exec_id = (char *)exec_id;
	request.signal = signal;
	return host_call(host, "Signal", &request.base, &reply);
}

static void test_signal(void **state)
{
	struct host *host = host_of(state);
	struct reply reply;

	assert_int_equal(host_exec(host, "e", "exec sleep 100", false, STREAMS, &reply), TTRPC_OK);
	assert_int_equal(delete_process(host, "e"), TTRPC_FAILED_PRECONDITION);
	assert_int_equal(delete_process(host, ""), TTRPC_INVALID_ARGUMENT);
	assert_int_equal(signal_exec(host, "e", SIGTERM), TTRPC_OK);
	assert_int_equal(host_wait_exec(host, "e"), 128 + SIGTERM);
	end_container(host);
}

static void test_terminal_and_size(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__ResizeTerminalRequest request = MOAT__AGENT__RESIZE_TERMINAL_REQUEST__INIT;
	char text[1024] = "";
	size_t used = 0;
	struct reply reply;

	assert_int_equal(
		host_exec(host, "t", "read x; stty size; echo is $x", true, STREAMS, &reply),
		TTRPC_OK);
	request.id = (char *)"c";
	request.exec_id = (char *)"t";
	request.rows = 12;
	request.columns = 34;
	assert_int_equal(host_call(host, "ResizeTerminal", &request.base, &reply), TTRPC_OK);
	assert_int_equal(fd_write_full(host->streams[STREAMS], "so\n", 3), 0);
	for (ssize_t n;
	     (n = read(host->streams[STREAMS], text + used, sizeof(text) - 1 - used)) > 0;)
		used += (size_t)n;
	assert_int_equal(host_wait_exec(host, "t"), 0);
	assert_non_null(strstr(text, "12 34\r\nis so\r\n"));
	request.exec_id = (char *)"";
	assert_int_equal(host_call(host, "ResizeTerminal", &request.base, &reply),
			 TTRPC_INVALID_ARGUMENT);
	assert_non_null(strstr(reply.text, "no terminal"));
	end_container(host);
}

static void test_errors(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__ExecRequest request = MOAT__AGENT__EXEC_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)"c";
	request.exec_id = (char *)"e";
	request.process = (char *)"{\"args\":[\"none\"],\"cwd\":\"/\",\"env\":[\"PATH=/bin\"]}";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_NOT_FOUND);
	assert_non_null(strstr(reply.text, "none"));
	request.process = (char *)"{\"args\":[]}";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_INVALID_ARGUMENT);
	request.exec_id = (char *)"";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_INVALID_ARGUMENT);
	assert_int_equal(host_exec(host, "e", "sleep 100", false, STREAMS, &reply), TTRPC_OK);
	request.exec_id = (char *)"e";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_ALREADY_EXISTS);
	end_container(host);
	/* The container's end took its other processes with it. */
	assert_int_equal(host_wait_exec(host, "e"), 128 + SIGKILL);
	request.exec_id = (char *)"f";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_FAILED_PRECONDITION);
	assert_int_equal(host_delete(host, "c"), TTRPC_OK);
	request.exec_id = (char *)"e";
	assert_int_equal(host_call(host, "Exec", &request.base, &reply), TTRPC_NOT_FOUND);
}

/* A program whose file somebody holds a lease of: execve(2) waits for it. Returns who holds it. */
static int hold_program(struct host *host)
{
	static const char script[] = "#!/bin/sh\nexit 7\n";
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/0/bin/held", host->directory);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, script, sizeof(script) - 1), 0);
	close(fd);
	signal(SIGIO, SIG_IGN);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	return fd;
}

/* On its way to its program a process can be held up by those in the container. */
static void test_process_that_is_held_up(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__ExecRequest request = MOAT__AGENT__EXEC_REQUEST__INIT;
	struct reply held, killed, reply;
	int holder = hold_program(host), status;

	request.id = (char *)"c";
	request.process = (char *)"{\"args\":[\"held\"],\"cwd\":\"/\",\"env\":[\"PATH=/bin\"]}";
	request.exec_id = (char *)"h";
	host_begin(host, "Exec", &request.base, &held);
	request.exec_id = (char *)"k";
	host_begin(host, "Exec", &request.base, &killed);
	/* The agent has others to serve. */
	assert_int_equal(host_exec(host, "e", "exit 5", false, STREAMS, &reply), TTRPC_OK);
	assert_int_equal(host_wait_exec(host, "e"), 5);
	assert_int_equal(held.count + killed.count, 0);
	assert_int_equal(delete_process(host, "h"), TTRPC_FAILED_PRECONDITION);
	assert_int_equal(signal_exec(host, "k", SIGKILL), TTRPC_OK);
	status = host_wait_exec(host, "k");
	assert_int_equal(killed.count, 1);
	/* That it ended on its way is said, unless it was seen to have ended before. */
	assert_int_equal(status, killed.code == TTRPC_OK ? 128 + SIGKILL : -1);
	assert_int_equal(held.count, 0);
	close(holder);
	assert_int_equal(host_wait_exec(host, "h"), 7);
	assert_int_equal(held.count, 1);
	assert_int_equal(held.code, TTRPC_OK);
	end_container(host);
}

/* Its container goes meanwhile. */
static void test_container_of_one_that_is_held_up(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__ExecRequest request = MOAT__AGENT__EXEC_REQUEST__INIT;
	struct reply held;
	int holder = hold_program(host);

	request.id = (char *)"c";
	request.process = (char *)"{\"args\":[\"held\"],\"cwd\":\"/\",\"env\":[\"PATH=/bin\"]}";
	request.exec_id = (char *)"h";
	host_begin(host, "Exec", &request.base, &held);
	end_container(host);
	assert_int_equal(host_delete(host, "c"), TTRPC_OK);
	assert_int_equal(held.count, 1);
	close(holder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(output_and_status),       TEST(signal),
		TEST(terminal_and_size),       TEST(errors),
		TEST(process_that_is_held_up), TEST(container_of_one_that_is_held_up)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
