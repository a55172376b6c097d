/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client of the agent. */
#include "vm/agent_call.h"

#include "base/fd.h"
#include "oci/config.h"
#include "rpc/ttrpc.h"
#include "vm/machine.h"

#include <sys/random.h>
#include <time.h>

#define SERVICE	      "moat.agent.Agent"
#define PROTOCOL      1u
#define ENTROPY_BYTES 64

struct agent {
	struct ttrpc *connection;
	void *data; /* the owner's */
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

void agent_failure(const struct call *call, uint32_t code, const char *text, struct err *err)
{
	/* Never empty: that is how a message says that there is no error. */
	const char *reason = text[0] ? text : "the guest gave no reason";

	switch (code) {
	case TTRPC_UNAVAILABLE:
	case TTRPC_DEADLINE_EXCEEDED:
		err_set(err, code == TTRPC_DEADLINE_EXCEEDED ? ETIMEDOUT : ECONNRESET,
			"%s: the guest does not answer", call->what);
		break;
	case TTRPC_NOT_FOUND:
		err_set(err, call->not_found, "%s", reason);
		break;
	case TTRPC_PERMISSION_DENIED:
		err_set(err, ERR_PROGRAM_DENIED, "%s", reason);
		break;
	case TTRPC_FAILED_PRECONDITION:
		err_set(err, ERR_NOT_RUNNING, "%s", reason);
		break;
	default:
		err_set(err, 0, "%s", reason);
	}
}

void agent_answered(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
{
	struct call *call = data;
	struct err err;

	if (!response)
		agent_failure(call, code, text, &err);
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
		agent_failure(call, code, text, &err);
	else if (hello->version != PROTOCOL)
		err_set(&err, 0,
			"the guest's init speaks version %u, moat %u: install both from "
			"one build",
			hello->version, PROTOCOL);
	call->done(call->data, hello && hello->version == PROTOCOL ? NULL : &err);
	free(call);
}

int agent_call(struct agent *agent, const char *method, const ProtobufCMessage *request,
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
	return agent_call(agent, "Hello", &request.base, &moat__agent__hello_response__descriptor,
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

void agent_fill_stdio(Moat__Agent__Stdio *message, const struct stdio *stdio)
{
	moat__agent__stdio__init(message);
	message->stdin_port = stdio->stream[0].port;
	message->stdout_port = stdio->terminal ? stdio->stream[0].port : stdio->stream[1].port;
	message->stderr_port = stdio->stream[2].port;
	message->terminal = stdio->terminal;
	message->rows = stdio->rows;
	message->columns = stdio->columns;
}

/* The entries of linux.devices that are disks. Returns a block to free, with the list in it. */
static Moat__Agent__Disk **list_disks(const struct disks *disks)
{
	size_t count = disks->device_count;
	Moat__Agent__Disk **list = xcalloc(count + 1, sizeof(*list) + sizeof(Moat__Agent__Disk));
	Moat__Agent__Disk *disk = (Moat__Agent__Disk *)(list + count + 1);

	for (size_t i = 0; i < count; i++) {
		moat__agent__disk__init(&disk[i]);
		disk[i].device = disks->device[i].device;
		disk[i].number = disks->device[i].disk;
		list[i] = &disk[i];
	}
	return list;
}

int agent_create(struct agent *agent, const struct machine *machine, uint64_t timeout_ms,
		 agent_done_fn done, struct err *err)
{
	const struct container *container = machine->container;
	const struct trees *trees = &machine->trees;
	Moat__Agent__CreateContainerRequest request = MOAT__AGENT__CREATE_CONTAINER_REQUEST__INIT;
	Moat__Agent__Stdio streams;
	_cleanup_free_ Moat__Agent__Tree *tree = xcalloc(trees->count, sizeof(*tree));
	_cleanup_free_ Moat__Agent__Tree **list = xcalloc(trees->count, sizeof(*list));
	_cleanup_free_ Moat__Agent__Disk **disks = list_disks(&machine->disks);
	_cleanup_free_ char *text = oci_config_write(container->config, NULL);

	for (size_t i = 0; i < trees->count; i++) {
		fill_tree(&tree[i], trees, i);
		list[i] = &tree[i];
	}
	agent_fill_stdio(&streams, &machine->stdio);
	request.id = (char *)container->id;
	request.bundle = (char *)container->bundle;
	request.config = text;
	if (trees->tree[0].fd >= 0)
		request.root = list[0];
	else
		request.root_is_disk = true;
	request.n_trees = trees->count - 1;
	request.trees = list + 1;
	request.stdio = &streams;
	request.n_disks = machine->disks.device_count;
	request.disks = disks;
	return agent_call(agent, "CreateContainer", &request.base,
			  &moat__agent__create_container_response__descriptor, timeout_ms,
			  agent_answered,
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
	return agent_call(agent, "StartContainer", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, agent_answered,
			  (struct call){ .what = "start the container in the guest",
					 .not_found = ERR_PROGRAM_NOT_FOUND,
					 .data = data,
					 .done = done },
			  err);
}

int agent_shutdown(struct agent *agent, agent_done_fn done, struct err *err)
{
	Moat__Agent__Empty request = MOAT__AGENT__EMPTY__INIT;

	return agent_call(
		agent, "Shutdown", &request.base, &moat__agent__empty__descriptor, 0,
		agent_answered,
		(struct call){ .what = "shut the guest down", .data = agent->data, .done = done },
		err);
}
