/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client of the agent: what a container uses, and may use. */
#include "vm/agent_call.h"

#include "base/mem.h"
#include "oci/processes.h"

#include <string.h>

static void stats_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			   const char *text)
{
	const Moat__Agent__StatsResponse *stats = (const void *)response;
	struct call *call = data;
	const char *answer = stats ? stats->stats : NULL;
	struct err err;

	if (!stats) {
		agent_failure(call, code, text, &err);
	} else if (strlen(answer) > AGENT_STATS_MAX) {
		err_set(&err, E2BIG, "%s", call->what);
		answer = NULL;
	}
	call->told(call->data, answer, answer ? NULL : &err);
	free(call);
}

static char *write_processes(const Moat__Agent__ProcessesResponse *response)
{
	_cleanup_free_ struct moat_process *list =
		xcalloc(response->n_processes + 1, sizeof(*list));
	struct moat_processes processes = { .processes = list,
					    .n_processes = response->n_processes };

	for (size_t i = 0; i < response->n_processes; i++) {
		const Moat__Agent__Process *process = response->processes[i];

		list[i] = (struct moat_process){ .pid = process->pid,
						 .parent = process->parent,
						 .uid = process->uid,
						 .start = process->start_ns,
						 .cpu = process->cpu_ns,
						 .state = process->state,
						 .command = process->command,
						 .terminal = process->terminal };
	}
	return moat_processes_write(&processes, NULL);
}

static void processes_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			       const char *text)
{
	_cleanup_free_ char *json = response ? write_processes((const void *)response) : NULL;
	struct call *call = data;
	struct err err;

	if (!response)
		agent_failure(call, code, text, &err);
	call->told(call->data, json, response ? NULL : &err);
	free(call);
}

static void watch_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			   const char *text)
{
	const Moat__Agent__WatchMemoryResponse *count = (const void *)response;
	struct call *call = data;
	struct err err;

	if (!count)
		agent_failure(call, code, text, &err);
	call->counted(call->data, count ? count->oom_kills : 0, count ? NULL : &err);
	free(call);
}

int agent_update(struct agent *agent, const char *id, const char *resources, uint64_t timeout_ms,
		 agent_done_fn done, void *data, struct err *err)
{
	Moat__Agent__UpdateContainerRequest request = MOAT__AGENT__UPDATE_CONTAINER_REQUEST__INIT;

	request.id = (char *)id;
	request.resources = (char *)resources;
	return agent_call(agent, "UpdateContainer", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, agent_answered,
			  (struct call){ .what = "change the limits in the guest",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .done = done },
			  err);
}

int agent_stats(struct agent *agent, const char *id, uint64_t timeout_ms, agent_text_fn told,
		void *data, struct err *err)
{
	Moat__Agent__ContainerRequest request = MOAT__AGENT__CONTAINER_REQUEST__INIT;

	request.id = (char *)id;
	return agent_call(agent, "Stats", &request.base, &moat__agent__stats_response__descriptor,
			  timeout_ms, stats_answered,
			  (struct call){ .what = "read the statistics of the guest",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .told = told },
			  err);
}

int agent_processes(struct agent *agent, const char *id, uint64_t timeout_ms, agent_text_fn told,
		    void *data, struct err *err)
{
	Moat__Agent__ContainerRequest request = MOAT__AGENT__CONTAINER_REQUEST__INIT;

	request.id = (char *)id;
	return agent_call(agent, "Processes", &request.base,
			  &moat__agent__processes_response__descriptor, timeout_ms,
			  processes_answered,
			  (struct call){ .what = "list the processes in the guest",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .told = told },
			  err);
}

int agent_watch_memory(struct agent *agent, const char *id, uint64_t seen, agent_count_fn counted,
		       void *data, struct err *err)
{
	Moat__Agent__WatchMemoryRequest request = MOAT__AGENT__WATCH_MEMORY_REQUEST__INIT;

	request.id = (char *)id;
	request.seen = seen;
	return agent_call(agent, "WatchMemory", &request.base,
			  &moat__agent__watch_memory_response__descriptor, 0, watch_answered,
			  (struct call){ .what = "watch the guest's memory",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .counted = counted },
			  err);
}
