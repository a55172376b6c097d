/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service moat.agent.Agent (proto/agent.proto), and the reaping of everything that ends. */
#include "guest/agent.h"

#include "base/fd.h"
#include "base/log.h"
#include "guest/container.h"
#include "rpc/agent.pb-c.h"

#include <signal.h>
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

static void reply_err(struct ttrpc_call call, const struct err *err)
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
	struct container *container;
	struct err err = { 0 };

	container =
		container_create(data, (const Moat__Agent__CreateContainerRequest *)message, &err);
	if (!container) {
		reply_err(call, &err);
		return;
	}
	response.pid = (uint32_t)container->init.pid;
	ttrpc_reply(call, &response.base);
}

static void serve_start(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ContainerRequest *request =
		(const Moat__Agent__ContainerRequest *)message;
	struct err err = { 0 };
	struct container *container = container_find(data, request->id, &err);

	if (!container || container_start(container, &err) < 0)
		reply_err(call, &err);
	else
		reply_empty(call);
}

/* Processes beside the first one come with exec; until one was made there is none of that id. */
static struct container *find_process(struct agent *agent, const char *id, const char *exec_id,
				      struct err *err)
{
	if (*exec_id) {
		err_set(err, ERR_NO_CONTAINER, "no process %s in container %s", exec_id, id);
		return NULL;
	}
	return container_find(agent, id, err);
}

static void serve_wait(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ProcessRequest *request = (const Moat__Agent__ProcessRequest *)message;
	struct err err = { 0 };
	struct container *container = find_process(data, request->id, request->exec_id, &err);

	if (container)
		process_wait(&container->init, call);
	else
		reply_err(call, &err);
}

static void serve_signal(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__SignalRequest *request = (const Moat__Agent__SignalRequest *)message;
	struct err err = { 0 };
	struct container *container = find_process(data, request->id, request->exec_id, &err);

	if (container && request->signal > (uint32_t)SIGRTMAX)
		err_set(&err, EINVAL, "no signal %u", request->signal);
	else if (container &&
		 container_signal(container, (int)request->signal, request->all, &err) == 0)
		return reply_empty(call);
	reply_err(call, &err);
}

static void serve_delete(void *data, struct ttrpc_call call, const ProtobufCMessage *message)
{
	const Moat__Agent__ContainerRequest *request =
		(const Moat__Agent__ContainerRequest *)message;
	struct err err = { 0 };
	struct container *container = container_find(data, request->id, &err);

	if (!container || container_delete(container, &err) < 0)
		reply_err(call, &err);
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
	METHOD("StartContainer", container_request, serve_start),
	METHOD("Wait", process_request, serve_wait),
	METHOD("Signal", signal_request, serve_signal),
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
