/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client of the agent. */
#include "vm/agent.h"

#include "base/fd.h"
#include "oci/config.h"
#include "rpc/ttrpc.h"

#include <sys/random.h>
#include <time.h>

#define SERVICE	      "moat.agent.Agent"
#define PROTOCOL      1u
#define ENTROPY_BYTES 64

struct agent {
	struct ttrpc *connection;
	void *data; /* the owner's */
};

/* One open call. */
struct call {
	const char *what; /* for messages: "start the container in the guest" */
	int not_found;	  /* enum err_special that TTRPC_NOT_FOUND means here */
	void *data;
	agent_done_fn done;
	agent_ended_fn ended;
};

struct agent *agent_new(struct loop *loop, int fd, void (*closed)(void *data, const char *text),
			void *data, struct err *err)
{
	struct agent *agent = xcalloc(1, sizeof(*agent));

	agent->data = data;
	agent->connection = ttrpc_new(loop, fd, NULL, closed, data, err);
	if (agent->connection)
		return agent;
	free(agent);
	return NULL;
}

void agent_free(struct agent *agent)
{
	if (agent)
		ttrpc_free(agent->connection);
	free(agent);
}

/* What the agent said goes to the user as it is; failures of the way to it say where they were. */
static void failure(const struct call *call, uint32_t code, const char *text, struct err *err)
{
	switch (code) {
	case TTRPC_UNAVAILABLE:
	case TTRPC_DEADLINE_EXCEEDED:
		err_set(err, code == TTRPC_DEADLINE_EXCEEDED ? ETIMEDOUT : ECONNRESET,
			"%s: the guest does not answer", call->what);
		break;
	case TTRPC_NOT_FOUND:
		err_set(err, call->not_found, "%s", text);
		break;
	case TTRPC_PERMISSION_DENIED:
		err_set(err, ERR_PROGRAM_DENIED, "%s", text);
		break;
	case TTRPC_FAILED_PRECONDITION:
		err_set(err, ERR_NOT_RUNNING, "%s", text);
		break;
	default:
		err_set(err, 0, "%s", text[0] ? text : "the guest gave no reason");
	}
}

static void answered(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
{
	struct call *call = data;
	struct err err;

	if (!response)
		failure(call, code, text, &err);
	call->done(call->data, response ? NULL : &err);
	free(call);
}

static void hello_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			   const char *text)
{
	const Moat__Agent__HelloResponse *hello = (const void *)response;
	struct call *call = data;
	struct err err;

	if (!hello)
		failure(call, code, text, &err);
	else if (hello->version != PROTOCOL)
		err_set(&err, 0,
			"the guest's init speaks version %u, moat %u: install both from "
			"one build",
			hello->version, PROTOCOL);
	call->done(call->data, hello && hello->version == PROTOCOL ? NULL : &err);
	free(call);
}

static void wait_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			  const char *text)
{
	const Moat__Agent__WaitResponse *end = (const void *)response;
	struct call *call = data;
	struct err err;

	if (!end)
		failure(call, code, text, &err);
	call->ended(call->data, end ? end->status & 0xff : 0, end && end->oom, end ? NULL : &err);
	free(call);
}

static int call_agent(struct agent *agent, const char *method, const ProtobufCMessage *request,
		      const ProtobufCMessageDescriptor *response, uint64_t timeout_ms,
		      ttrpc_answer_fn answer, struct call template, struct err *err)
{
	struct call *call = xcalloc(1, sizeof(*call));

	*call = template;
	if (ttrpc_call(agent->connection, SERVICE, method, request, response, timeout_ms, answer,
		       call, err) == 0)
		return 0;
	free(call);
	return err_wrap(err, "%s", template.what);
}

int agent_hello(struct agent *agent, const char *hostname, uint64_t timeout_ms, agent_done_fn done,
		struct err *err)
{
	Moat__Agent__HelloRequest request = MOAT__AGENT__HELLO_REQUEST__INIT;
	uint8_t entropy[ENTROPY_BYTES];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (getrandom(entropy, sizeof(entropy), 0) != (ssize_t)sizeof(entropy))
		return err_set(err, errno, "get random bytes for the guest");
	request.realtime_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	request.entropy = (ProtobufCBinaryData){ sizeof(entropy), entropy };
	request.hostname = (char *)(hostname ? hostname : "");
	return call_agent(agent, "Hello", &request.base, &moat__agent__hello_response__descriptor,
			  timeout_ms, hello_answered,
			  (struct call){ .what = "reach the guest's init",
					 .data = agent->data,
					 .done = done },
			  err);
}

static void fill_tree(Moat__Agent__Tree *message, const struct trees *trees, size_t index)
{
	moat__agent__tree__init(message);
	message->mount = trees->tree[index].mount;
	message->entry = (uint32_t)index;
	message->file = trees->tree[index].file;
}

static void fill_stdio(Moat__Agent__Stdio *message, const struct stdio *stdio)
{
	moat__agent__stdio__init(message);
	message->stdin_port = stdio->stream[0].port;
	message->stdout_port = stdio->terminal ? stdio->stream[0].port : stdio->stream[1].port;
	message->stderr_port = stdio->stream[2].port;
	message->terminal = stdio->terminal;
	message->rows = stdio->rows;
	message->columns = stdio->columns;
}

int agent_create(struct agent *agent, const char *id, const struct oci_config *config,
		 const struct trees *trees, const struct stdio *stdio, uint64_t timeout_ms,
		 agent_done_fn done, struct err *err)
{
	Moat__Agent__CreateContainerRequest request = MOAT__AGENT__CREATE_CONTAINER_REQUEST__INIT;
	Moat__Agent__Stdio streams;
	_cleanup_free_ Moat__Agent__Tree *tree = xcalloc(trees->count, sizeof(*tree));
	_cleanup_free_ Moat__Agent__Tree **list = xcalloc(trees->count, sizeof(*list));
	_cleanup_free_ char *text = oci_config_write(config, NULL);

	for (size_t i = 0; i < trees->count; i++) {
		fill_tree(&tree[i], trees, i);
		list[i] = &tree[i];
	}
	fill_stdio(&streams, stdio);
	request.id = (char *)id;
	request.config = text;
	request.root = list[0];
	request.n_trees = trees->count - 1;
	request.trees = list + 1;
	request.stdio = &streams;
	return call_agent(agent, "CreateContainer", &request.base,
			  &moat__agent__create_container_response__descriptor, timeout_ms, answered,
			  (struct call){ .what = "make the container in the guest",
					 .not_found = ERR_PROGRAM_NOT_FOUND,
					 .data = agent->data,
					 .done = done },
			  err);
}

int agent_start(struct agent *agent, const char *id, Moat__Agent__Network *network,
		uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err)
{
	Moat__Agent__StartContainerRequest request = MOAT__AGENT__START_CONTAINER_REQUEST__INIT;

	request.id = (char *)id;
	request.network = network;
	return call_agent(agent, "StartContainer", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, answered,
			  (struct call){ .what = "start the container in the guest",
					 .not_found = ERR_PROGRAM_NOT_FOUND,
					 .data = data,
					 .done = done },
			  err);
}

int agent_wait(struct agent *agent, const char *id, const char *exec_id, agent_ended_fn ended,
	       void *data, struct err *err)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	return call_agent(
		agent, "Wait", &request.base, &moat__agent__wait_response__descriptor, 0,
		wait_answered,
		(struct call){ .what = "wait for a process", .data = data, .ended = ended }, err);
}

int agent_signal(struct agent *agent, const char *id, const char *exec_id, uint32_t signal,
		 bool all, uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err)
{
	Moat__Agent__SignalRequest request = MOAT__AGENT__SIGNAL_REQUEST__INIT;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	request.signal = signal;
	request.all = all;
	return call_agent(agent, "Signal", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, answered,
			  (struct call){ .what = "send a signal to the workload",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .done = done },
			  err);
}

int agent_resize(struct agent *agent, const char *id, const char *exec_id, uint32_t rows,
		 uint32_t columns, uint64_t timeout_ms, agent_done_fn done, void *data,
		 struct err *err)
{
	Moat__Agent__ResizeTerminalRequest request = MOAT__AGENT__RESIZE_TERMINAL_REQUEST__INIT;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	request.rows = rows;
	request.columns = columns;
	return call_agent(agent, "ResizeTerminal", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, answered,
			  (struct call){ .what = "set the terminal's size",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .done = done },
			  err);
}

int agent_exec(struct agent *agent, const struct agent_process *process, uint64_t timeout_ms,
	       agent_done_fn done, void *data, struct err *err)
{
	Moat__Agent__ExecRequest request = MOAT__AGENT__EXEC_REQUEST__INIT;
	Moat__Agent__Stdio streams;

	fill_stdio(&streams, process->stdio);
	request.id = (char *)process->id;
	request.exec_id = (char *)process->exec_id;
	request.process = (char *)process->process;
	request.user = (char *)process->user;
	request.cgroup = (char *)process->cgroup;
	request.stdio = &streams;
	return call_agent(agent, "Exec", &request.base, &moat__agent__exec_response__descriptor,
			  timeout_ms, answered,
			  (struct call){ .what = "run a process in the guest",
					 .not_found = ERR_PROGRAM_NOT_FOUND,
					 .data = data,
					 .done = done },
			  err);
}

int agent_delete_process(struct agent *agent, const char *id, const char *exec_id,
			 uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	return call_agent(agent, "DeleteProcess", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, answered,
			  (struct call){ .what = "forget a process that has ended",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .done = done },
			  err);
}

int agent_shutdown(struct agent *agent, agent_done_fn done, struct err *err)
{
	Moat__Agent__Empty request = MOAT__AGENT__EMPTY__INIT;

	return call_agent(
		agent, "Shutdown", &request.base, &moat__agent__empty__descriptor, 0, answered,
		(struct call){ .what = "shut the guest down", .data = agent->data, .done = done },
		err);
}
