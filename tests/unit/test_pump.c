/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pumps between pipes and sockets: every byte, flow control, and the end from every side. */
#include "loop_alarm.h"

#include "base/fd.h"
#include "base/mem.h"
#include "guest/pump.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#define TOTAL (8u << 20)

struct fixture {
	struct loop loop;
	struct pump pump;
	struct source peer;
	unsigned int ended;
	int near, far; /* what the test writes to, and reads from */
	size_t sent, received, limit;
	unsigned int seed_in, seed_out;
};

static void on_ended(struct pump *pump)
{
	struct fixture *f = pump->data;

	f->ended++;
	loop_quit(&f->loop);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct err err;

	*state = f;
	f->near = f->far = -1;
	signal(SIGPIPE, SIG_IGN);
	return loop_init(&f->loop, &err);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	pump_stop(&f->pump);
	fd_replace(&f->near, -1);
	fd_replace(&f->far, -1);
	loop_close(&f->loop);
	free(f);
	return 0;
}

enum kind { PIPE, SOCKET };

static void make(enum kind kind, int *reader, int *writer)
{
	int pair[2];

	if (kind == PIPE)
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	else
		assert_int_equal(fd_socketpair(SOCK_STREAM, pair), 0);
	*reader = pair[0];
	*writer = pair[1];
}

static void start(struct fixture *f, enum kind from, enum kind to)
{
	struct err err;
	int in, out;

	make(from, &in, &f->near);
	make(to, &f->far, &out);
	assert_int_equal(pump_start(&f->pump, &f->loop, in, out, on_ended, f, &err), 0);
}

static void fill(char *bytes, size_t size, unsigned int *seed)
{
	for (size_t i = 0; i < size; i++) {
		*seed = *seed * 1103515245u + 12345u;
		bytes[i] = (char)(*seed >> 16);
	}
}

/* A writer in a process of its own, as a workload is. */
static pid_t fork_writer(struct fixture *f)
{
	pid_t pid = fork();

	if (pid == 0) {
		char bytes[10000];

		for (size_t left = TOTAL; left > 0;) {
			size_t n = left < sizeof(bytes) ? left : sizeof(bytes);

			fill(bytes, n, &f->seed_in);
			if (fd_write_full(f->near, bytes, n) < 0)
				_exit(1);
			left -= n;
		}
		_exit(0);
	}
	fd_replace(&f->near, -1);
	return pid;
}

static int on_far(struct source *source, uint32_t events, struct err *err)
{
	struct fixture *f = source->data;
	char bytes[7001], expected[7001];
	ssize_t n = read(source->fd, bytes, sizeof(bytes));

	assert_true(n >= 0);
	if (n == 0) {
		loop_forget(&f->loop, source);
		loop_quit(&f->loop);
		return 0;
	}
	fill(expected, (size_t)n, &f->seed_out);
	assert_memory_equal(bytes, expected, n);
	f->received += (size_t)n;
	return 0;
}

static void check_bytes(struct fixture *f, enum kind from, enum kind to)
{
	struct err err;

	start(f, from, to);
	fork_writer(f);
	f->peer = (struct source){ .fd = f->far, .ready = on_far, .data = f };
	assert_int_equal(loop_watch(&f->loop, &f->peer, EPOLLIN, &err), 0);
	while (f->received < TOTAL || !f->ended)
		assert_true(loop_run_for(&f->loop, 20000));
	if (f->peer.added)
		assert_true(loop_run_for(&f->loop, 2000)); /* its end has not been seen yet */
	assert_int_equal(f->received, TOTAL);
	assert_int_equal(f->ended, 1);
}

static void test_pipe_to_socket(void **state)
{
	check_bytes(*state, PIPE, SOCKET);
}

static void test_socket_to_pipe(void **state)
{
	check_bytes(*state, SOCKET, PIPE);
}

static void test_socket_to_socket(void **state)
{
	struct fixture *f = *state;

	check_bytes(f, SOCKET, SOCKET); /* neither is a pipe: through the buffer */
	assert_false(f->pump.spliced);
}

/* What nobody takes stays with the writer: a bounded amount is on the way, then it waits. */
static void check_flow(struct fixture *f, enum kind from, enum kind to)
{
	char bytes[4096] = { 0 };
	size_t sent = 0, before;

	start(f, from, to);
	assert_int_equal(fcntl(f->near, F_SETFL, O_NONBLOCK), 0);
	do {
		before = sent;
		for (ssize_t n; (n = write(f->near, bytes, sizeof(bytes))) > 0;)
			sent += (size_t)n;
		assert_false(loop_run_for(&f->loop, 20));
	} while (sent > before);
	assert_true(sent < 2u << 20);
	assert_int_equal(f->ended, 0);
	fd_replace(&f->near, -1); /* also the end waits behind what is on the way */
	assert_false(loop_run_for(&f->loop, 20));
	while (sent > 0) {
		ssize_t n = read(f->far, bytes, sizeof(bytes));

		assert_true(n > 0);
		sent -= (size_t)n;
		loop_run_for(&f->loop, 1);
	}
	if (!f->ended)
		assert_true(loop_run_for(&f->loop, 2000));
	assert_int_equal(read(f->far, bytes, 1), 0);
}

static void test_flow_out(void **state)
{
	check_flow(*state, PIPE, SOCKET);
}

static void test_flow_in(void **state)
{
	check_flow(*state, SOCKET, PIPE);
}

static void test_flow_buffered(void **state)
{
	check_flow(*state, SOCKET, SOCKET);
}

/* The reader goes away while nothing is written: the writer's next write fails. */
static void check_reader_leaves(struct fixture *f, enum kind from, enum kind to)
{
	start(f, from, to);
	assert_int_equal(fd_write_full(f->near, "x", 1), 0);
	assert_false(loop_run_for(&f->loop, 20));
	fd_replace(&f->far, -1);
	assert_true(loop_run_for(&f->loop, 2000));
	assert_int_equal(f->ended, 1);
	assert_int_equal(fd_write_full(f->near, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
}

static void test_reader_leaves_socket(void **state)
{
	check_reader_leaves(*state, PIPE, SOCKET);
}

static void test_reader_leaves_pipe(void **state)
{
	check_reader_leaves(*state, SOCKET, PIPE);
}

/* The same with the pump waiting to write. */
static void test_reader_leaves_while_full(void **state)
{
	struct fixture *f = *state;
	char bytes[4096] = { 0 };
	size_t sent = 0;

	start(f, PIPE, SOCKET);
	assert_int_equal(fcntl(f->near, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 20; i++) {
		for (ssize_t n; (n = write(f->near, bytes, sizeof(bytes))) > 0;)
			sent += (size_t)n;
		assert_false(loop_run_for(&f->loop, 5));
	}
	fd_replace(&f->far, -1);
	assert_true(loop_run_for(&f->loop, 2000));
	assert_int_equal(write(f->near, bytes, 1), -1);
	assert_int_equal(errno, EPIPE);
}

/* A host that only ever reads may shut down its sending half: that is not the end. */
static void test_peer_half_closed(void **state)
{
	struct fixture *f = *state;
	char byte;

	start(f, PIPE, SOCKET);
	assert_int_equal(shutdown(f->far, SHUT_WR), 0);
	assert_false(loop_run_for(&f->loop, 50));
	assert_int_equal(f->ended, 0);
	assert_int_equal(fd_write_full(f->near, "y", 1), 0);
	assert_false(loop_run_for(&f->loop, 20));
	assert_int_equal(read(f->far, &byte, 1), 1);
	assert_int_equal(byte, 'y');
	assert_int_equal(shutdown(f->far, SHUT_RD), 0);
	assert_true(loop_run_for(&f->loop, 2000));
	assert_int_equal(f->ended, 1);
}

/* A half that was shut down must not be reported for ever: the loop has to sleep. */
static void test_no_busy_loop(void **state)
{
	struct fixture *f = *state;
	struct timespec before, after;

	start(f, PIPE, SOCKET);
	shutdown(f->far, SHUT_WR);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	assert_false(loop_run_for(&f->loop, 300));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000 +
			    (after.tv_nsec - before.tv_nsec) / 1000000 <
		    100);
}

static void test_idle(void **state)
{
	struct fixture *f = *state;

	assert_true(pump_is_idle(&f->pump));
	assert_false(pump_runs(&f->pump));
	pump_stop(&f->pump);
	start(f, PIPE, SOCKET);
	assert_true(pump_is_idle(&f->pump));
	assert_int_equal(fd_write_full(f->near, "x", 1), 0);
	assert_false(pump_is_idle(&f->pump));
	assert_false(loop_run_for(&f->loop, 20));
	assert_true(pump_is_idle(&f->pump));
	pump_stop(&f->pump);
	assert_true(pump_is_idle(&f->pump));
	assert_int_equal(f->ended, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pipe_to_socket),
		TEST(socket_to_pipe),
		TEST(socket_to_socket),
		TEST(flow_out),
		TEST(flow_in),
		TEST(flow_buffered),
		TEST(reader_leaves_socket),
		TEST(reader_leaves_pipe),
		TEST(reader_leaves_while_full),
		TEST(peer_half_closed),
		TEST(no_busy_loop),
		TEST(idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
