/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A monitor without a machine. */
#include "monitor_host.h"

#include "base/fd.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "vm/execution.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cmocka.h>

static const struct moat_settings settings = { .guest_timeout = 60 };
static struct oci_config config;
static struct container container = { .id = "c", .config = &config, .settings = &settings };
static int vmm;

struct monitor monitor;
struct machine machine;
struct ttrpc *agent;
struct host_call seen[HOST_CALLS_MAX];
size_t n_seen;

static void note(struct ttrpc_call call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void note(struct ttrpc_call call, const char *fmt, ...)
{
	va_list ap;

	assert_true(n_seen < HOST_CALLS_MAX);
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

static void serve_container(const char *method, struct ttrpc_call call,
			    const ProtobufCMessage *message)
{
	note(call, "%s %s", method, ((const Moat__Agent__ContainerRequest *)message)->id);
}

static void serve_start(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	note(call, "Start %s", ((const Moat__Agent__StartContainerRequest *)message)->id);
}

static void serve_stats(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	serve_container("Stats", call, message);
}

static void serve_processes(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	serve_container("Processes", call, message);
}

static void serve_update(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	note(call, "Update %s", ((const Moat__Agent__UpdateContainerRequest *)message)->resources);
}

static void serve_watch(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__WatchMemoryRequest *request = (const void *)message;

	note(call, "Watch %llu", (unsigned long long)request->seen);
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
	METHOD("StartContainer", start_container_request, serve_start),
	METHOD("Stats", container_request, serve_stats),
	METHOD("Processes", container_request, serve_processes),
	METHOD("UpdateContainer", update_container_request, serve_update),
	METHOD("WatchMemory", watch_memory_request, serve_watch),
	{ 0 },
};

static void connection_closed(void *data, const char *text)
{
}

int host_setup(void **state)
{
	int pair[2];
	struct err err;

	n_seen = 0;
	machine = (struct machine){ .container = &container };
	monitor = (struct monitor){ .machine = &machine,
				    .container = &container,
				    .phase = PHASE_RUNNING };
	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++)
		monitor.clients[i].source.fd = monitor.clients[i].file = -1;
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

/* A pipe's end is the last thing that is ready. */
void host_run(void)
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

int host_teardown(void **state)
{
	ttrpc_free(steal(agent));
	host_run();
	agent_free(monitor.agent);
	executions_close(&monitor);
	pausing_close(&monitor);
	watching_close(&monitor);
	for (int i = 0; i < MONITOR_CLIENTS_MAX; i++) {
		fd_replace(&monitor.clients[i].source.fd, -1);
		fd_replace(&monitor.clients[i].file, -1);
	}
	loop_close(&monitor.loop);
	fd_replace(&vmm, -1);
	fd_replace(&machine.vmm_fd, -1);
	return 0;
}

void expect_seen(size_t index, const char *text)
{
	assert_true(index < n_seen);
	assert_string_equal(seen[index].text, text);
}

void answer_with(size_t index, const ProtobufCMessage *message)
{
	ttrpc_reply(seen[index].call, message);
	host_run();
}

void answer(size_t index)
{
	Moat__Agent__Empty empty = MOAT__AGENT__EMPTY__INIT;

	answer_with(index, &empty.base);
}

void refuse(size_t index, enum ttrpc_code code, const char *text)
{
	ttrpc_reply_error(seen[index].call, code, text);
	host_run();
}

/* Returns its port. */
static uint32_t take_request(uint32_t type)
{
	struct vmm_request request;
	int fd;

	assert_int_equal(fd_receive(vmm, &request, sizeof(request), &fd, 1), sizeof(request));
	assert_int_equal(request.type, type);
	assert_int_equal(fd >= 0, type == VMM_REQUEST_PORT_ADD || type == VMM_REQUEST_NET_ADD);
	fd_replace(&fd, -1);
	return request.port;
}

void expect_vmm(uint32_t type, uint32_t port)
{
	assert_int_equal(take_request(type), port);
}

uint32_t expect_port(void)
{
	return take_request(VMM_REQUEST_PORT_ADD);
}

void expect_reply(int fd, const char *words)
{
	struct err reply;

	assert_int_equal(recv(fd, &reply, sizeof(reply), 0), sizeof(reply));
	if (*words)
		assert_non_null(strstr(reply.text, words));
	else
		assert_string_equal(reply.text, "");
}

void expect_silence(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
}
