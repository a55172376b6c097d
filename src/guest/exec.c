/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Further processes of a container: streams of their own, everything else is the container's. */
#include "guest/container.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "guest/refuse.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#include <string.h>
#include <sys/epoll.h>

static struct container *find_running(const struct agent *agent,
				      const Moat__Agent__ExecRequest *request, struct err *err)
{
	struct container *container = container_find(agent, request->id, err);

	if (!container)
		return NULL;
	if (!*request->exec_id) {
		err_set(err, EINVAL, "the request gives no id for the process");
		return NULL;
	}
	if (container_process(agent, request->id, request->exec_id, NULL)) {
		err_set(err, EEXIST, "run process %s in container %s", request->exec_id,
			request->id);
		return NULL;
	}
	if (container->init->exited) {
		err_set(err, ERR_NOT_RUNNING, "container %s is not running", request->id);
		return NULL;
	}
	return container;
}

/* Run the namespace engine. The streams are prepared. */
static int begin(const struct container *container, struct process *process,
		 const struct oci_process *wanted, const Moat__Agent__ExecRequest *request,
		 struct err *err)
{
	_cleanup_free_ char *cgroup = NULL;
	struct sandbox_exec_params params = {
		.id = container->id,
		.init = container->init->pid,
		.config = &container->config.config,
		.process = wanted,
		.user = *request->user ? request->user : NULL,
		.console_socket = process->streams.console[1],
	};

	if (cgroup_below(container->cgroup, request->cgroup, &cgroup, err) < 0)
		return -1;
	params.cgroup_path = cgroup;
	for (int i = 0; i < 3; i++)
		params.stdio[i] = process->streams.workload[i];
	process->begun = sandbox_exec_begin(&params, &process->pid, err);
	for (int i = 0; i < 3; i++)
		fd_replace(&process->streams.workload[i], -1);
	return process->begun ? 0 : -1;
}

static void forget(struct container *container, struct process *process)
{
	struct process **link = &container->others;

	while (*link != process)
		link = &(*link)->next;
	*link = process->next;
	process_free(process);
}

static struct container *container_of(const struct process *process)
{
	struct container *container = process->agent->containers;

	for (; container; container = container->next)
		for (struct process *p = container->others; p; p = p->next)
			if (p == process)
				return container;
	return NULL;
}

static int attach(struct process *process, struct err *err)
{
	loop_forget(&process->agent->loop, &process->begins);
	if (sandbox_exec_end(steal(process->begun), process->exited, err) < 0) {
		process->pid = -1;
		return -1;
	}
	return streams_attach(&process->streams, process->agent, process_output_ended, err);
}

bool container_exec_begun(struct process *process)
{
	struct ttrpc_call call = process->asked;
	struct err err = { 0 };

	if (attach(process, &err) < 0) {
		agent_reply_err(call, &err);
		forget(container_of(process), process);
		return false;
	}
	agent_reply_exec(call, process->pid);
	return true;
}

static int begins(struct source *source, uint32_t events, struct err *err)
{
	container_exec_begun(source->data);
	return 0;
}

/*
 * On its way to its program the process is in the hands of those in the container, who can stop it:
 * the agent has others to serve meanwhile.
 */
static int watch(struct process *process, struct err *err)
{
	process->begins = (struct source){ .fd = sandbox_exec_fd(process->begun),
					   .ready = begins,
					   .data = process };
	return loop_watch(&process->agent->loop, &process->begins, EPOLLIN, err);
}

int container_exec(struct agent *agent, const Moat__Agent__ExecRequest *request,
		   struct ttrpc_call call, struct err *err)
{
	struct container *container = find_running(agent, request, err);
	_cleanup_(oci_process_free_pointer) struct oci_process *parsed = NULL;
	struct guest_process wanted;
	struct process *process;

	if (!container)
		return -1;
	parsed = oci_process_parse(request->process, strlen(request->process), "process", err);
	if (!parsed || guest_process_check(parsed, err) < 0)
		return -1;
	guest_process_set(&wanted, parsed, request->stdio);
	process = process_new(agent, request->exec_id);
	process->asked = call;
	if (streams_prepare(&process->streams, agent, request->stdio, err) < 0 ||
	    begin(container, process, &wanted.process, request, err) < 0 ||
	    watch(process, err) < 0) {
		process_free(process);
		return -1;
	}
	process->next = container->others;
	container->others = process;
	return 0;
}

int container_delete_process(struct container *container, struct process *process, struct err *err)
{
	if (process == container->init)
		return err_set(err, EINVAL, "the first process goes with its container");
	if (!process->exited)
		return err_set(err, ERR_NOT_RUNNING, "delete process %s: it runs",
			       process->exec_id);
	forget(container, process);
	return 0;
}
