/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service moat.agent.Agent (proto/agent.proto), and the reaping of everything that ends. */
#include "guest/agent.h"

#include "base/fd.h"
#include "base/log.h"
#include "cgroup/cgroup.h"
#include "cgroup/stats.h"
#include "guest/container.h"
#include "guest/processes.h"
#include "oci/events.h"
#include "rpc/agent.pb-c.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define PROTOCOL_VERSION 1

static void reply_empty(struct ttrpc_call call)
{
	Moat__Agent__Empty response = MOAT__AGENT__EMPTY__INIT;

	ttrpc_reply(call, &response.base);
}

void agent_reply_err(struct ttrpc_call call, const struct err *err)
{
	enum ttrpc_code code = TTRPC_INTERNAL;

	switch (err->code) {
	case EINVAL:
		code = TTRPC_INVALID_ARGUMENT;
		break;
	case EEXIST:
		code = TTRPC_ALREADY_EXISTS;
		break;
	case ERR_NO_CONTAINER:
	case ERR_PROGRAM_NOT_FOUND:
		code = TTRPC_NOT_FOUND;
		break;
	case ERR_PROGRAM_DENIED:
		code = TTRPC_PERMISSION_DENIED;
		break;
	case ERR_NOT_RUNNING:
		code = TTRPC_FAILED_PRECONDITION;
		break;
	}
	ttrpc_reply_error(call, code, err->text);
}

static void serve_hello(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__HelloRequest *request = (const Moat__Agent__HelloRequest *)message;
	Moat__Agent__HelloResponse response = MOAT__AGENT__HELLO_RESPONSE__INIT;
	struct agent *agent = data;
	struct utsname name;

	agent->machine->greet((int64_t)request->realtime_ns, request->entropy.data,
			      request->entropy.len, request->hostname);
	uname(&name);
	response.version = PROTOCOL_VERSION;
	response.kernel = name.release;
	ttrpc_reply(call, &response.base);
}

static void serve_create(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	Moat__Agent__CreateContainerResponse response =
		MOAT__AGENT__CREATE_CONTAINER_RESPONSE__INIT;
	const Moat__Agent__CreateContainerRequest *request =
		(const Moat__Agent__CreateContainerRequest *)message;
	const struct agent *agent = data;
	struct container *container;
	struct err err = { 0 };

	container = container_create(data, request, &err);
	if (!container) {
		agent_reply_err(call, &err);
		return;
	}
	response.pid = (uint32_t)container->init->pid;
	ttrpc_reply(call, &response.base);
	/* Once the host knows: the program is not yet to start. */
	if (request->n_trees && agent->machine->repeat)
		agent->machine->repeat(agent->machine->trees);
}

static void serve_start(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__StartContainerRequest *request =
		(const Moat__Agent__StartContainerRequest *)message;
	struct err err = { 0 };
	struct container *container = container_find(data, request->id, &err);

	if (!container || container_start(container, request->network, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

void agent_reply_exec(struct ttrpc_call call, pid_t pid)
{
	Moat__Agent__ExecResponse response = MOAT__AGENT__EXEC_RESPONSE__INIT;

	response.pid = (uint32_t)pid;
	ttrpc_reply(call, &response.base);
}

static void serve_exec(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	struct err err = { 0 };

	if (container_exec(data, (const Moat__Agent__ExecRequest *)message, call, &err) < 0)
		agent_reply_err(call, &err);
}

static void serve_wait(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ProcessRequest *request = (const Moat__Agent__ProcessRequest *)message;
	struct err err = { 0 };
	struct process *process = container_process(data, request->id, request->exec_id, &err);

	if (process)
		process_wait(process, call);
	else
		agent_reply_err(call, &err);
}

static int send_signal(const struct agent *agent, const Moat__Agent__SignalRequest *request,
		       struct err *err)
{
	const struct container *container = container_find(agent, request->id, err);
	const struct process *process;

	if (request->signal > (uint32_t)SIGRTMAX)
		return err_set(err, EINVAL, "no signal %u", request->signal);
	if (container && request->all)
		return container_signal_all(container, (int)request->signal, err);
	process = container_process(agent, request->id, request->exec_id, err);
	return process ? container_signal(process, (int)request->signal, err) : -1;
}

static void serve_signal(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	struct err err = { 0 };

	if (send_signal(data, (const Moat__Agent__SignalRequest *)message, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

static void serve_resize(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ResizeTerminalRequest *request =
		(const Moat__Agent__ResizeTerminalRequest *)message;
	struct err err = { 0 };
	const struct process *process =
		container_process(data, request->id, request->exec_id, &err);

	if (!process ||
	    streams_resize(&process->streams, request->rows, request->columns, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

static void serve_delete_process(void *data, struct ttrpc_call call,
				 const ProtobufCMessage *message)
{
	const Moat__Agent__ProcessRequest *request = (const Moat__Agent__ProcessRequest *)message;
	struct err err = { 0 };
	struct container *container = container_find(data, request->id, &err);
	struct process *process = container_process(data, request->id, request->exec_id, &err);

	if (!process || container_delete_process(container, process, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

/* One that has a cgroup of its own: NULL with err set where there is none. */
static struct container *with_cgroup(const struct agent *agent, const char *id, struct err *err)
{
	struct container *container = container_find(agent, id, err);

	if (!container || container->cgroup)
		return container;
	err_set(err, 0, "container %s has no cgroup", id);
	return NULL;
}

static int update(const struct container *container, const char *text, struct err *err)
{
	_cleanup_(oci_linux_resources_free_pointer) struct oci_linux_resources *parsed =
		oci_linux_resources_parse(text, strlen(text), "resources", err);
	struct guest_resources resources;
	int r;

	if (!parsed)
		return -1;
	r = guest_resources_set(&resources, parsed, &container->config, err);
	if (r == 0)
		r = cgroup_update(container->cgroup, &resources.resources, err);
	guest_resources_release(&resources);
	return r;
}

static void serve_update(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__UpdateContainerRequest *request =
		(const Moat__Agent__UpdateContainerRequest *)message;
	struct err err = { 0 };
	const struct container *container = with_cgroup(data, request->id, &err);

	if (!container || update(container, request->resources, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

static void serve_stats(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ContainerRequest *request =
		(const Moat__Agent__ContainerRequest *)message;
	Moat__Agent__StatsResponse response = MOAT__AGENT__STATS_RESPONSE__INIT;
	struct err err = { 0 };
	const struct container *container = with_cgroup(data, request->id, &err);
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats =
		container ? cgroup_stats(container->cgroup, &err) : NULL;
	_cleanup_free_ char *text = stats ? moat_stats_write(stats, NULL) : NULL;

	if (!text) {
		agent_reply_err(call, &err);
		return;
	}
	response.stats = text;
	ttrpc_reply(call, &response.base);
}

static void serve_processes(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ContainerRequest *request =
		(const Moat__Agent__ContainerRequest *)message;
	Moat__Agent__ProcessesResponse response = MOAT__AGENT__PROCESSES_RESPONSE__INIT;
	struct err err = { 0 };
	const struct container *container = with_cgroup(data, request->id, &err);

	if (!container || processes_list(container->cgroup, &response, &err) < 0)
		agent_reply_err(call, &err);
	else
		ttrpc_reply(call, &response.base);
	processes_free(&response);
}

static void serve_watch_memory(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__WatchMemoryRequest *request =
		(const Moat__Agent__WatchMemoryRequest *)message;
	struct agent *agent = data;
	struct err err = { 0 };
	struct container *container = with_cgroup(agent, request->id, &err);

	if (!container || memory_events_watch(&container->memory_events, &agent->loop,
					      container->cgroup, call, request->seen, &err) < 0)
		agent_reply_err(call, &err);
}

static void serve_delete(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ContainerRequest *request =
		(const Moat__Agent__ContainerRequest *)message;
	struct err err = { 0 };
	struct container *container = container_find(data, request->id, &err);

	if (!container || container_delete(container, &err) < 0)
		agent_reply_err(call, &err);
	else
		reply_empty(call);
}

static void serve_shutdown(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	struct agent *agent = data;

	agent->machine->settle();
	reply_empty(call);
	loop_quit(&agent->loop);
}

#define METHOD(name, request, function)                                                            \
	{                                                                                          \
		"moat.agent.Agent", name, &moat__agent__##request##__descriptor, function          \
	}

static const struct ttrpc_method methods[] = {
	METHOD("Hello", hello_request, serve_hello),
	METHOD("CreateContainer", create_container_request, serve_create),
	METHOD("StartContainer", start_container_request, serve_start),
	METHOD("Wait", process_request, serve_wait),
	METHOD("Signal", signal_request, serve_signal),
	METHOD("Exec", exec_request, serve_exec),
	METHOD("DeleteProcess", process_request, serve_delete_process),
	METHOD("ResizeTerminal", resize_terminal_request, serve_resize),
	METHOD("UpdateContainer", update_container_request, serve_update),
	METHOD("Stats", container_request, serve_stats),
	METHOD("Processes", container_request, serve_processes),
	METHOD("WatchMemory", watch_memory_request, serve_watch_memory),
	METHOD("DeleteContainer", container_request, serve_delete),
	METHOD("Shutdown", empty, serve_shutdown),
	{ 0 },
};

/* Orphans come to us too: their statuses interest nobody. */
static int child_ended(struct source *source, uint32_t events, struct err *err)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	(void)!read(source->fd, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		container_reaped(source->data, pid, status);
	return 0;
}

int agent_init(struct agent *agent, const struct machine *machine, struct err *err)
{
	sigset_t mask;

	*agent = (struct agent){
		.machine = machine,
		.loop.epoll_fd = -1,
		.signals = { .fd = -1, .ready = child_ended, .data = agent },
		.use_cgroups = true,
		.first_cgroup = machine->cgroup,
	};
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return err_set(err, errno, "set up signals");
	if (loop_init(&agent->loop, err) < 0)
		return -1;
	agent->signals.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (agent->signals.fd < 0)
		return err_set(err, errno, "make a signalfd");
	return loop_watch(&agent->loop, &agent->signals, EPOLLIN, err);
}

/* Nobody is left who could be served. */
static void control_closed(void *data, const char *text)
{
	struct agent *agent = data;

	if (*text)
		log_error("the connection to the monitor failed: %s", text);
	loop_quit(&agent->loop);
}

int agent_serve(struct agent *agent, int fd, struct err *err)
{
	agent->control = ttrpc_new(&agent->loop, fd, methods, control_closed, agent, err);
	return agent->control ? 0 : -1;
}

void agent_close(struct agent *agent)
{
	container_free_all(agent);
	ttrpc_free(agent->control);
	loop_forget(&agent->loop, &agent->signals);
	fd_replace(&agent->signals.fd, -1);
	loop_close(&agent->loop);
}
