/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process that stands for one in the guest, with this test as the monitor. */
#include "base/fd.h"
#include "base/proc.h"
#include "vm/control.h"
#include "vm/monitor.h"
#include "vm/standin.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#define TIMEOUT_MS 10000

static int monitor; /* our end of the connection */
static struct standin standin;

static int setup(void **state)
{
	int pair[2];

	if (fd_socketpair(SOCK_SEQPACKET, pair) < 0)
		return -1;
	monitor = pair[0];
	standin = (struct standin){ .monitor = pair[1], .terminal = -1 };
	return 0;
}

static int teardown(void **state)
{
	standin_end(&standin);
	fd_replace(&monitor, -1);
	return 0;
}

static void start(void)
{
	struct err err = { 0 };

	assert_int_equal(standin_fork(&standin, &err), 0);
	fd_replace(&standin.monitor, -1);
	assert_int_equal(standin_release(&standin, &err), 0);
}

static void expect_request(struct control_request *request)
{
	struct pollfd ready = { .fd = monitor, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, TIMEOUT_MS), 1);
	assert_int_equal(recv(monitor, request, sizeof(*request), 0), sizeof(*request));
}

static void expect_end(int status)
{
	assert_int_equal(proc_wait(standin.pid), status);
	standin.pid = 0;
}

static void test_status(void **state)
{
	struct control_end end = { .status = 7 };

	start();
	assert_int_equal(send(monitor, &end, sizeof(end), 0), sizeof(end));
	expect_end(7);
}

/* What comes from the monitor is checked: an exit status is a byte. */
static void test_status_that_makes_no_sense(void **state)
{
	struct control_end end = { .status = 0x107 };

	start();
	assert_int_equal(send(monitor, &end, sizeof(end), 0), sizeof(end));
	expect_end(7);
}

static void test_monitor_that_dies(void **state)
{
	start();
	fd_replace(&monitor, -1);
	expect_end(MONITOR_STATUS_LOST);
}

static void test_signals(void **state)
{
	static const int signals[] = { SIGTERM, SIGHUP, SIGUSR1, SIGWINCH, SIGTSTP };
	struct control_request request;

	start();
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		assert_int_equal(kill(standin.pid, signals[i]), 0);
		expect_request(&request);
		assert_int_equal(request.type, CONTROL_KILL);
		assert_int_equal(request.signal, signals[i]);
	}
	kill(standin.pid, SIGRTMIN + 5);
	expect_request(&request);
	assert_int_equal(request.signal, SIGRTMIN + 5);
}

static void test_size_of_the_terminal(void **state)
{
	_cleanup_fd_ int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize size = { .ws_row = 21, .ws_col = 71 };
	struct control_request request;

	assert_true(master >= 0 && unlockpt(master) == 0);
	standin.terminal = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(standin.terminal >= 0);
	standin.rows = 20;
	standin.columns = 70;
	ioctl(master, TIOCSWINSZ, &size);
	start();
	fd_replace(&standin.terminal, -1);
	/* It was another already than what the guest had been told. */
	expect_request(&request);
	assert_int_equal(request.type, CONTROL_RESIZE);
	assert_int_equal(request.rows, 21);
	assert_int_equal(request.columns, 71);
	size.ws_col = 72;
	ioctl(master, TIOCSWINSZ, &size);
	expect_request(&request);
	assert_int_equal(request.type, CONTROL_RESIZE);
	assert_int_equal(request.columns, 72);
	/* Without a new size the signal is one like any other. */
	kill(standin.pid, SIGWINCH);
	expect_request(&request);
	assert_int_equal(request.type, CONTROL_KILL);
	assert_int_equal(request.signal, SIGWINCH);
	fd_replace(&master, -1);
	expect_request(&request);
	assert_int_equal(request.signal, SIGHUP);
}

/* Who asked for the process dies before it is told that it runs. */
static void test_caller_that_dies(void **state)
{
	struct err err = { 0 };

	assert_int_equal(standin_fork(&standin, &err), 0);
	fd_replace(&standin.monitor, -1);
	fd_replace(&standin.channel, -1);
	expect_end(EXIT_FAILURE);
	assert_int_equal(recv(monitor, &err, sizeof(err), 0), 0);
}

static void test_cgroup_that_is_not_there(void **state)
{
	struct err err = { 0 };

	standin.cgroup_path = "/moat-test-nosuch";
	assert_int_equal(standin_fork(&standin, &err), 0);
	assert_int_equal(standin_release(&standin, &err), -1);
	assert_non_null(strstr(err.text, "moat-test-nosuch"));
	fd_replace(&standin.monitor, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_status),
		TEST(test_status_that_makes_no_sense),
		TEST(test_monitor_that_dies),
		TEST(test_signals),
		TEST(test_size_of_the_terminal),
		TEST(test_caller_that_dies),
		TEST(test_cgroup_that_is_not_there),
	};

	if (geteuid() != 0) {
		dprintf(1, "skipped: only root can give up what a stand-in gives up\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
