/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Questions to the monitor, a start, and pause: what it makes of the guest's answers, and of the
 * vmm's. */
#include "monitor_host.h"

#include "base/fd.h"
#include "base/mem.h"
#include "oci/processes.h"
#include "vm/control.h"
#include "vmm/vmm.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#define CLIENTS 3

static int ours[CLIENTS]; /* our ends of the clients' connections */
static int file;	  /* a further descriptor of the file that gets the answer */

/* A client connects, in the place of one that has got its reply. */
static void setup_client(int i)
{
	int pair[2];

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK, pair), 0);
	fd_replace(&ours[i], pair[0]);
	monitor.clients[i].monitor = &monitor;
	monitor.clients[i].source.fd = pair[1];
}

static int setup(void **state)
{
	if (host_setup(state) < 0)
		return -1;
	for (int i = 0; i < CLIENTS; i++) {
		ours[i] = -1;
		setup_client(i);
	}
	file = control_text("", 0, NULL);
	return file < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < CLIENTS; i++)
		fd_replace(&ours[i], -1);
	fd_replace(&file, -1);
	return host_teardown(state);
}

static void ask(int client, bool processes)
{
	int given = dup(file);

	asking_begin(&monitor.clients[client], processes, &given);
	assert_int_equal(given, -1);
	host_run();
}

static void answer_stats(size_t index, const char *text)
{
	Moat__Agent__StatsResponse response = MOAT__AGENT__STATS_RESPONSE__INIT;

	response.stats = (char *)text;
	answer_with(index, &response.base);
}

static void answer_process(size_t index, const char *command)
{
	Moat__Agent__ProcessesResponse response = MOAT__AGENT__PROCESSES_RESPONSE__INIT;
	Moat__Agent__Process process = MOAT__AGENT__PROCESS__INIT, *list[] = { &process };

	process.pid = 7;
	process.state = (char *)"S";
	process.command = (char *)command;
	response.processes = list;
	response.n_processes = 1;
	answer_with(index, &response.base);
}

/* What was written to the file; to be freed. */
static char *written(void)
{
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	return fd_read_text(file, 1 << 20, NULL);
}

static void test_statistics(void **state)
{
	char *text;

	ask(0, false);
	expect_seen(0, "Stats c");
	expect_silence(ours[0]);
	answer_stats(0, "{}");
	expect_reply(ours[0], "");
	text = written();
	assert_string_equal(text, "{}");
	free(text);
}

static void test_answer_that_is_too_long(void **state)
{
	_cleanup_free_ char *text = xcalloc(AGENT_STATS_MAX + 2, 1);

	memset(text, 'x', AGENT_STATS_MAX + 1);
	ask(0, false);
	answer_stats(0, text);
	expect_reply(ours[0], "statistics");
}

static void test_no_answer(void **state)
{
	ask(0, false);
	ask(1, true);
	refuse(1, TTRPC_INTERNAL, "");
	expect_reply(ours[1], "no reason");
	ttrpc_free(steal(agent));
	host_run();
	expect_reply(ours[0], "does not answer");
	monitor.phase = PHASE_DRAINING;
	ask(2, false);
	expect_reply(ours[2], "not running");
}

/* No text is the text of success: a refusal without one is none the less a refusal. */
static void test_refusals_without_a_word(void **state)
{
	static const enum ttrpc_code codes[] = { TTRPC_NOT_FOUND, TTRPC_PERMISSION_DENIED,
						 TTRPC_FAILED_PRECONDITION };
	const struct control_request request = { .type = CONTROL_START };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		ask((int)i, false);
		refuse(n++, codes[i], "");
		expect_reply(ours[i], "no reason");
	}
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		monitor.phase = PHASE_CREATED;
		setup_client(0);
		starting_begin(&monitor.clients[0], &request, NULL);
		host_run();
		refuse(n++, codes[i], "");
		expect_reply(ours[0], "no reason");
		assert_int_equal(monitor.phase, PHASE_CREATED);
	}
}

/* What has not begun in time is not to begin later. */
static void test_start_without_answer(void **state)
{
	const struct control_request request = { .type = CONTROL_START };

	monitor.phase = PHASE_CREATED;
	starting_begin(&monitor.clients[0], &request, NULL);
	host_run();
	expect_seen(0, "Start c");
	refuse(0, TTRPC_DEADLINE_EXCEEDED, "");
	expect_reply(
		ours[0],
		"the guest does not answer: Connection timed out; the machine is switched off");
	expect_vmm(VMM_REQUEST_STOP, 0);
	assert_int_equal(monitor.phase, PHASE_ENDING);
	assert_int_equal(monitor.status, MONITOR_STATUS_LOST);
}

static void test_start_with_a_silent_vmm(void **state)
{
	Moat__Agent__Network network = MOAT__AGENT__NETWORK__INIT;
	Moat__Agent__Interface interface = MOAT__AGENT__INTERFACE__INIT, *list[] = { &interface };
	struct control_request request = { .type = CONTROL_START, .taps = 1 };
	uint8_t mac[6] = { 2 }, packed[200];
	int fds[CONTROL_DESCRIPTORS];

	interface.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
	network.n_interfaces = 1;
	network.interfaces = list;
	request.size = (uint32_t)moat__agent__network__pack(&network, packed);
	memset(fds, -1, sizeof(fds));
	fds[0] = control_text(packed, request.size, NULL);
	fds[1] = dup(file);
	fds[2] = dup(file);
	monitor.phase = PHASE_CREATED;
	monitor.network_table = -1;
	machine.nets = 1;
	starting_begin(&monitor.clients[0], &request, fds);
	host_run();
	expect_vmm(VMM_REQUEST_NET_ADD, 0);
	assert_int_not_equal(monitor.network_table, -1);
	expect_silence(ours[0]);
	starting_late(&monitor);
	expect_reply(ours[0], "the vmm does not answer");
	expect_vmm(VMM_REQUEST_STOP, 0);
	assert_int_equal(n_seen, 0);
	assert_int_equal(monitor.network_table, -1);
	assert_int_equal(monitor.phase, PHASE_ENDING);
	close(fds[0]);
	close(fds[2]);
}

/* A process's words cannot be taken for more than its words. */
static void test_processes(void **state)
{
	struct moat_processes *processes;
	struct err err = { 0 };
	char *text;

	ask(0, true);
	answer_process(0, "\"},{\"pid\":8,\"state\":\"\x01\xff");
	expect_reply(ours[0], "");
	text = written();
	processes = moat_processes_parse(text, strlen(text), "answer", &err);
	assert_non_null(processes);
	assert_int_equal(processes->n_processes, 1);
	assert_int_equal(processes->processes[0].pid, 7);
	assert_non_null(strstr(processes->processes[0].command, "\"},{\"pid\":8"));
	moat_processes_free(processes);
	free(text);
}

static void test_update(void **state)
{
	struct control_request request = { .type = CONTROL_UPDATE, .size = 4 };
	_cleanup_fd_ int text = control_text("{  }", 4, NULL);

	asking_update(&monitor.clients[0], &request, text);
	host_run();
	expect_seen(0, "Update {  }");
	answer(0);
	expect_reply(ours[0], "");
	asking_update(&monitor.clients[1], &request, text); /* it has been read */
	expect_reply(ours[1], "4 bytes");
	request.size = UINT32_MAX;
	asking_update(&monitor.clients[2], &request, text);
	expect_reply(ours[2], "4294967295 bytes");
	assert_int_equal(n_seen, 1);
}

static void begin_pause(int client)
{
	pausing_begin(&monitor.clients[client], false);
	host_run();
	expect_seen(n_seen - 1, "Stats c");
	answer_stats(n_seen - 1, "{\"then\":1}");
	expect_seen(n_seen - 1, "Processes c");
	answer_process(n_seen - 1, "sleep");
	expect_vmm(VMM_REQUEST_PAUSE, 0);
}

static void test_pause_and_resume(void **state)
{
	char *text;

	begin_pause(0);
	assert_int_equal(monitor_timeout(&monitor, 5), 5);
	expect_silence(ours[0]);
	pausing_event(&monitor, VMM_EVENT_RESUMED); /* nobody asked for that */
	expect_silence(ours[0]);
	pausing_begin(&monitor.clients[1], false);
	expect_reply(ours[1], "already");
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	expect_reply(ours[0], "");
	assert_int_equal(monitor_timeout(&monitor, 5), 0);

	ask(2, false);
	expect_reply(ours[2], "");
	text = written();
	assert_string_equal(text, "{\"then\":1}");
	free(text);
	assert_int_equal(n_seen, 2); /* the guest was not asked */
}

static void test_resume(void **state)
{
	begin_pause(0);
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	expect_reply(ours[0], "");
	pausing_begin(&monitor.clients[1], true);
	expect_vmm(VMM_REQUEST_RESUME, 0);
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	expect_silence(ours[1]);
	pausing_event(&monitor, VMM_EVENT_RESUMED);
	expect_reply(ours[1], "");
	assert_false(monitor.pausing.paused);
	pausing_begin(&monitor.clients[2], true); /* it is as it is to be */
	expect_reply(ours[2], "");
}

/* A guest that does not say what it has is paused all the same. */
static void test_pause_of_a_silent_guest(void **state)
{
	pausing_begin(&monitor.clients[0], false);
	host_run();
	refuse(0, TTRPC_INTERNAL, "no");
	refuse(1, TTRPC_INTERNAL, "no");
	expect_vmm(VMM_REQUEST_PAUSE, 0);
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	expect_reply(ours[0], "");
	ask(1, true);
	expect_reply(ours[1], "paused");
}

static void test_vmm_that_says_too_much(void **state)
{
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	pausing_event(&monitor, VMM_EVENT_RESUMED);
	assert_false(monitor.pausing.paused);
}

/* It is told to pause only when the guest has said what it has, and what it says before is void. */
static void test_vmm_that_says_too_early(void **state)
{
	pausing_begin(&monitor.clients[0], false);
	host_run();
	pausing_event(&monitor, VMM_EVENT_PAUSED);
	assert_false(monitor.pausing.paused);
	expect_silence(ours[0]);
	monitor.phase = PHASE_DRAINING;
	refuse(0, TTRPC_INTERNAL, "no");
	refuse(1, TTRPC_INTERNAL, "no");
	expect_reply(ours[0], "not running");
}

static void answer_count(size_t index, uint64_t count)
{
	Moat__Agent__WatchMemoryResponse response = MOAT__AGENT__WATCH_MEMORY_RESPONSE__INIT;

	response.oom_kills = count;
	answer_with(index, &response.base);
}

static void expect_told(int fd, uint64_t expected)
{
	uint64_t count;

	assert_int_equal(recv(fd, &count, sizeof(count), 0), sizeof(count));
	assert_int_equal(count, expected);
}

static void wait_for_timer(void)
{
	struct pollfd timer = { .fd = monitor.watching.timer.fd, .events = POLLIN };

	assert_int_equal(poll(&timer, 1, 60000), 1);
	host_run();
}

static void test_lack_of_memory(void **state)
{
	watching_begin(&monitor.clients[0]);
	host_run();
	expect_reply(ours[0], "");
	expect_seen(0, "Watch 18446744073709551615");
	answer_count(0, 3); /* before anybody watched */
	expect_seen(1, "Watch 3");
	expect_silence(ours[0]);
	watching_begin(&monitor.clients[1]);
	expect_reply(ours[1], "");
	assert_int_equal(n_seen, 2);
	answer_count(1, 4);
	for (int i = 0; i < 2; i++)
		expect_told(ours[i], 4);
	wait_for_timer();
	expect_seen(2, "Watch 4");
	refuse(2, TTRPC_NOT_FOUND, "gone");
	assert_false(monitor.watching.asked);
	expect_silence(ours[0]);
	/* It is asked again for the next one who watches. */
	watching_begin(&monitor.clients[2]);
	host_run();
	expect_seen(3, "Watch 18446744073709551615");
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* An agent that never lacks an answer is asked a few times a second, whatever it says. */
static void test_agent_that_says_too_much(void **state)
{
	static const uint64_t counts[] = { UINT64_MAX, 5, UINT64_MAX, 0, 0, UINT64_MAX - 1 };
	double begin = seconds();

	watching_begin(&monitor.clients[0]);
	host_run();
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		answer_count(i, counts[i]);
		if (i > 0)
			wait_for_timer();
		assert_int_equal(n_seen, i + 2);
	}
	assert_true(seconds() - begin > 0.2 * (ARRAY_LEN(counts) - 1));
	expect_reply(ours[0], "");
	expect_told(ours[0], UINT64_MAX);
	expect_told(ours[0], UINT64_MAX - 1);
	expect_silence(ours[0]);
}

/* What happens in the time until it is asked again is told before the end. */
static void test_last_lack_of_memory(void **state)
{
	watching_begin(&monitor.clients[0]);
	host_run();
	expect_reply(ours[0], "");
	answer_count(0, 0);
	watching_last(&monitor); /* it is being asked already */
	host_run();
	assert_int_equal(n_seen, 2);
	answer_count(1, 1);
	expect_told(ours[0], 1);
	watching_last(&monitor);
	host_run();
	expect_seen(2, "Watch 1");
	answer_count(2, 2);
	expect_told(ours[0], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_statistics),
		TEST(test_answer_that_is_too_long),
		TEST(test_no_answer),
		TEST(test_refusals_without_a_word),
		TEST(test_start_without_answer),
		TEST(test_start_with_a_silent_vmm),
		TEST(test_processes),
		TEST(test_update),
		TEST(test_pause_and_resume),
		TEST(test_resume),
		TEST(test_pause_of_a_silent_guest),
		TEST(test_vmm_that_says_too_much),
		TEST(test_vmm_that_says_too_early),
		TEST(test_lack_of_memory),
		TEST(test_agent_that_says_too_much),
		TEST(test_last_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
