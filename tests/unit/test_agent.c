/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agent's service, with real containers: streams, statuses, signals, ends, orphans. */
#include "agent_host.h"

#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#define PID_NAMESPACE ",{\"type\":\"pid\"}"

static int setup(void **state)
{
	if (host_missing())
		return 0;
	*state = xcalloc(1, sizeof(struct host));
	host_start(*state);
	return 0;
}

static int teardown(void **state)
{
	int status;

	if (!*state)
		return 0;
	status = host_stop(*state);
	if (status != 0)
		fail_msg("the agent ended with status %d", status);
	free(*state);
	return 0;
}

static void create(struct host *host, const char *namespaces, const char *script, bool terminal)
{
	struct reply reply;

	if (host_create(host, "c", namespaces, script, terminal, &reply) != TTRPC_OK)
		fail_msg("CreateContainer: %s", reply.text);
	assert_int_not_equal(reply.number, 0);
	assert_int_equal(host_start_container(host, "c"), TTRPC_OK);
}

static void test_output_and_status(void **state)
{
	struct host *host = host_of(state);
	char *out, *err;

	create(host, PID_NAMESPACE, "echo out; echo bad >&2; exit 7", false);
	assert_int_equal(host_wait(host, "c"), 7);
	assert_int_equal(host_wait(host, "c"), 7); /* as often as one asks */
	out = host_read(host, 1);
	err = host_read(host, 2);
	assert_string_equal(out, "out\n");
	assert_string_equal(err, "bad\n");
	free(out);
	free(err);
	assert_int_equal(host_delete(host, "c"), TTRPC_OK);
	assert_int_equal(host_wait(host, "c"), -1);
}

static void test_input(void **state)
{
	struct host *host = host_of(state);
	size_t size = 1 << 20, got = 0;
	_cleanup_free_ char *bytes = xcalloc(size, 1), *back = xcalloc(size, 1);
	pid_t writer;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i * 7 ^ i >> 9);
	create(host, PID_NAMESPACE, "cat; exit 3", false);
	writer = fork();
	if (writer == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
		_exit(fd_write_full(host->streams[0], bytes, size) < 0 ||
		      shutdown(host->streams[0], SHUT_WR) < 0);
	while (got < size) {
		ssize_t n = read(host->streams[1], back + got, size - got);

		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_int_equal(host_wait(host, "c"), 3);
	assert_memory_equal(bytes, back, size);
	waitpid(writer, NULL, 0);
}

static void test_reader_leaves(void **state)
{
	struct host *host = host_of(state);
	char byte;

	create(host, PID_NAMESPACE, "yes; exit $?", false);
	assert_int_equal(read(host->streams[1], &byte, 1), 1);
	fd_replace(&host->streams[1], -1);
	assert_int_equal(host_wait(host, "c"), 128 + SIGPIPE);
}

static void test_output_closed_early(void **state)
{
	struct host *host = host_of(state);
	char byte;

	create(host, PID_NAMESPACE, "exec >&-; cat; exit 2", false);
	assert_int_equal(read(host->streams[1], &byte, 1), 0);
	fd_replace(&host->streams[0], -1);
	assert_int_equal(host_wait(host, "c"), 2);
}

static void test_signal(void **state)
{
	struct host *host = host_of(state);
	char text[4];

	create(host, PID_NAMESPACE, "trap 'exit 5' TERM; echo up; while :; do sleep 1; done",
	       false);
	assert_int_equal(read(host->streams[1], text, 3), 3);
	assert_int_equal(host_delete(host, "c"), TTRPC_FAILED_PRECONDITION);
	assert_int_equal(host_signal(host, "c", 1000), TTRPC_INVALID_ARGUMENT);
	assert_int_equal(host_signal(host, "c", SIGTERM), TTRPC_OK);
	assert_int_equal(host_wait(host, "c"), 5);
	assert_int_equal(host_signal(host, "c", SIGTERM), TTRPC_NOT_FOUND);
}

static void test_killed(void **state)
{
	struct host *host = host_of(state);

	create(host, PID_NAMESPACE, "sleep 100", false);
	assert_int_equal(host_signal(host, "c", SIGKILL), TTRPC_OK);
	assert_int_equal(host_wait(host, "c"), 128 + SIGKILL);
}

static void test_errors(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__CreateContainerRequest request = MOAT__AGENT__CREATE_CONTAINER_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)"..";
	assert_int_equal(host_call(host, "CreateContainer", &request.base, &reply),
			 TTRPC_INVALID_ARGUMENT);
	request.id = (char *)"d";
	request.config = (char *)"{\"ociVersion\":1}";
	assert_int_equal(host_call(host, "CreateContainer", &request.base, &reply),
			 TTRPC_INVALID_ARGUMENT);
	assert_non_null(strstr(reply.text, "ociVersion"));
	assert_int_equal(host_start_container(host, "d"), TTRPC_NOT_FOUND);
	create(host, PID_NAMESPACE, "cat", false);
	assert_int_equal(host_create(host, "c", "", "true", false, &reply), TTRPC_ALREADY_EXISTS);
	assert_int_equal(host_start_container(host, "c"), TTRPC_FAILED_PRECONDITION);
	fd_replace(&host->streams[0], -1);
	assert_int_equal(host_wait(host, "c"), 0);
}

/* A failed container leaves nothing: neither the streams' connections nor a process. */
static void test_program_missing(void **state)
{
	struct host *host = host_of(state);
	char path[128], byte;
	struct reply reply;

	snprintf(path, sizeof(path), "%s/0/bin/sh", host->directory);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(host_create(host, "c", PID_NAMESPACE, "true", false, &reply),
			 TTRPC_NOT_FOUND);
	assert_non_null(strstr(reply.text, "sh"));
	assert_int_equal(read(host->streams[1], &byte, 1), 0);
	assert_int_equal(host_wait(host, "c"), -1);
}

static void test_terminal(void **state)
{
	struct host *host = host_of(state);
	char text[4096] = "";
	size_t used = 0;

	create(host, PID_NAMESPACE, "tty; stty size; read x; echo got $x", true);
	assert_int_equal(fd_write_full(host->streams[0], "word\n", 5), 0);
	for (ssize_t n; (n = read(host->streams[0], text + used, sizeof(text) - 1 - used)) > 0;)
		used += (size_t)n;
	assert_int_equal(host_wait(host, "c"), 0);
	/* Between these two, or before, is what the terminal echoes. */
	assert_non_null(strstr(text, "/dev/pts/0\r\n"));
	assert_non_null(strstr(text, "31 97\r\n"));
	assert_non_null(strstr(text, "got word\r\n"));
}

/* A child in the background holds the output open: the status comes all the same, and soon. */
static void test_background_child(void **state)
{
	struct host *host = host_of(state);
	struct timespec before, after;
	char text[8] = "";

	create(host, "", "sleep 1000 & echo hello; exit 4", false);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(host_wait(host, "c"), 4);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(after.tv_sec - before.tv_sec < 10);
	assert_int_equal(read(host->streams[1], text, sizeof(text)), 6);
	assert_string_equal(text, "hello\n");
}

/* A status does not overtake output that the host has not taken yet. */
static void test_status_after_output(void **state)
{
	struct host *host = host_of(state);
	struct timespec before, after;
	size_t got = 0;
	pid_t reader;
	int status;

	create(host, PID_NAMESPACE, "yes & sleep 0.3; exit 6", false);
	clock_gettime(CLOCK_MONOTONIC, &before);
	reader = fork();
	if (reader == 0) {
		char bytes[4096];

		sleep(2);
		for (ssize_t n; (n = read(host->streams[1], bytes, sizeof(bytes))) > 0;)
			got += (size_t)n;
		_exit(got > 100000 ? 0 : 1);
	}
	assert_int_equal(host_wait(host, "c"), 6);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(after.tv_sec - before.tv_sec >= 1);
	waitpid(reader, &status, 0);
	assert_int_equal(status, 0);
}

static unsigned int count_zombies(pid_t parent)
{
	DIR *proc = opendir("/proc");
	unsigned int zombies = 0;

	for (struct dirent *entry; (entry = readdir(proc));) {
		char path[300], state = 0;
		int ppid = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%*d %*[^)]) %c %d", &state, &ppid) == 2 && state == 'Z' &&
		    ppid == parent)
			zombies++;
		fclose(file);
	}
	closedir(proc);
	return zombies;
}

/* host->pid is the agent's parent in our pid namespace; the agent is its only child. */
static pid_t agent_pid(const struct host *host)
{
	char path[64], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", host->pid, host->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fd_read_full(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

static void test_orphans(void **state)
{
	struct host *host = host_of(state);
	struct timespec pause = { 0, 50000000 };
	unsigned int zombies = 1;

	create(host, "", "for i in 1 2 3 4 5; do (sleep 0.1 &); done; exit 0", false);
	assert_int_equal(host_wait(host, "c"), 0);
	nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
	for (int i = 0; i < 40 && zombies; i++) {
		zombies = count_zombies(agent_pid(host));
		nanosleep(&pause, NULL);
	}
	assert_int_equal(zombies, 0);
}

static void test_shutdown(void **state)
{
	struct host *host = host_of(state);
	Moat__Agent__Empty request = MOAT__AGENT__EMPTY__INIT;
	struct reply reply;

	create(host, PID_NAMESPACE, "sleep 1000", false);
	assert_int_equal(host_call(host, "Shutdown", &request.base, &reply), TTRPC_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(output_and_status),
		TEST(input),
		TEST(reader_leaves),
		TEST(output_closed_early),
		TEST(signal),
		TEST(killed),
		TEST(errors),
		TEST(program_missing),
		TEST(terminal),
		TEST(background_child),
		TEST(status_after_output),
		TEST(orphans),
		TEST(shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
