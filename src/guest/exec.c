/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Further processes of a container: streams of their own, everything else is the container's. */
#include "guest/container.h"

#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "guest/refuse.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

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
static int run(const struct container *container, struct process *process,
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
	return sandbox_exec(&params, &process->pid, err);
}

struct process *container_exec(struct agent *agent, const Moat__Agent__ExecRequest *request,
			       struct err *err)
{
	struct container *container = find_running(agent, request, err);
	_cleanup_(oci_process_free_pointer) struct oci_process *parsed = NULL;
	struct guest_process wanted;
	struct process *process;

	if (!container)
		return NULL;
	parsed = oci_process_parse(request->process, strlen(request->process), "process", err);
	if (!parsed || guest_process_check(parsed, err) < 0)
		return NULL;
	guest_process_set(&wanted, parsed, request->stdio);
	process = process_new(agent, request->exec_id);
	if (streams_prepare(&process->streams, agent, request->stdio, err) < 0 ||
	    run(container, process, &wanted.process, request, err) < 0 ||
	    streams_attach(&process->streams, agent, process_output_ended, err) < 0) {
		process_free(process);
		return NULL;
	}
	process->next = container->others;
	container->others = process;
	return process;
}

int container_delete_process(struct container *container, struct process *process, struct err *err)
{
	struct process **link = &container->others;

	if (process == container->init)
		return err_set(err, EINVAL, "the first process goes with its container");
	if (!process->exited)
		return err_set(err, ERR_NOT_RUNNING, "delete process %s: it runs",
			       process->exec_id);
	while (*link != process)
		link = &(*link)->next;
	*link = process->next;
	process_free(process);
	return 0;
}
