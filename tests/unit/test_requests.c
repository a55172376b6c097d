/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The monitor's control socket, and clients that mean no good or do not know what they do. */
#include "monitor_host.h"

#include "base/fd.h"
#include "base/path.h"
#include "vm/control.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static char directory[] = "/tmp/moat-test-XXXXXX";
static struct container container;
static sigset_t before;

static int setup(void **state)
{
	struct err err;

	if (host_setup(state) < 0)
		return -1;
	snprintf(directory, sizeof(directory), "/tmp/moat-test-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	sigprocmask(SIG_SETMASK, NULL, &before);
	container = *monitor.container;
	container.state_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	monitor.container = &container;
	monitor.network_table = -1;
	return requests_init(&monitor, &err);
}

static int teardown(void **state)
{
	int r = host_teardown(state);

	requests_close(&monitor);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(container.state_fd);
	return path_remove_tree(AT_FDCWD, directory, NULL) < 0 ? -1 : r;
}

static int connect_client(void)
{
	int fd = control_connect(container.state_fd, 20, NULL);

	assert_true(fd >= 0);
	host_run();
	return fd;
}

static unsigned int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void expect_end(int fd)
{
	char byte;

	host_run();
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

/* Messages of another size, with as many descriptors as one can have. */
static void test_no_requests(void **state)
{
	static const size_t sizes[] = { 0, 1, sizeof(struct control_request) - 1,
					sizeof(struct control_request) + 1,
					2 * sizeof(struct control_request) };
	char bytes[2 * sizeof(struct control_request)] = { 0 };
	unsigned int descriptors = count_descriptors();
	int fds[FD_SEND_MAX];

	for (size_t i = 0; i < FD_SEND_MAX; i++)
		fds[i] = STDIN_FILENO;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = connect_client();

		assert_int_equal(fd_send(fd, bytes, sizes[i], fds, sizes[i] ? FD_SEND_MAX : 0), 0);
		expect_end(fd);
	}
	assert_int_equal(count_descriptors(), descriptors);
	assert_int_equal(n_seen, 0);
}

/* Whatever is asked for, with none of what belongs to it, or with too much. */
static void test_requests_without_sense(void **state)
{
	unsigned int descriptors = count_descriptors();
	int fds[FD_SEND_MAX], fd;

	for (size_t i = 0; i < FD_SEND_MAX; i++)
		fds[i] = STDIN_FILENO;
	for (uint32_t type = 0; type < 2 * CONTROL_WATCH; type++) {
		struct control_request request;

		if (type == CONTROL_START || type == CONTROL_PAUSE) /* they need nothing */
			continue;
		memset(&request, 0xff, sizeof(request));
		request.type = type;
		fd = connect_client();
		assert_int_equal(fd_send(fd, &request, sizeof(request), NULL, 0), 0);
		host_run();
		close(fd);
		fd = connect_client();
		assert_int_equal(fd_send(fd, &request, sizeof(request), fds, FD_SEND_MAX), 0);
		expect_end(fd);
	}
	monitor.phase = PHASE_CREATED;
	fd = connect_client();
	assert_int_equal(fd_send(fd,
				 &(struct control_request){ .type = CONTROL_START,
							    .size = UINT32_MAX,
							    .taps = UINT32_MAX },
				 sizeof(struct control_request), NULL, 0),
			 0);
	host_run();
	expect_reply(fd, "take a network of 4294967295 bytes");
	close(fd);
	host_run();
	/* The timer of calls to the agent came with the first of them. */
	assert_int_equal(count_descriptors(), descriptors + 1);
}

/* Those beyond see the end, and it is not that of the others. */
static void test_too_many_clients(void **state)
{
	const struct control_request request = { .type = CONTROL_KILL };
	int clients[MONITOR_CLIENTS_MAX + 1];

	for (size_t i = 0; i <= MONITOR_CLIENTS_MAX; i++)
		clients[i] = connect_client();
	expect_end(clients[MONITOR_CLIENTS_MAX]);
	for (size_t i = 0; i < MONITOR_CLIENTS_MAX; i++) {
		assert_int_equal(fd_send(clients[i], &request, sizeof(request), NULL, 0), 0);
		host_run();
		expect_reply(clients[i], "send signal 0");
		close(clients[i]);
	}
	close(connect_client());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_no_requests),
		TEST(test_requests_without_sense),
		TEST(test_too_many_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
