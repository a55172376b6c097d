/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client of the agent: processes of a container. */
#include "vm/agent_call.h"

#include "base/mem.h"

static void wait_answered(void *data, const ProtobufCMessage *response, uint32_t code,
			  const char *text)
{
	const Moat__Agent__WaitResponse *end = (const void *)response;
	struct call *call = data;
	struct err err;

	if (!end)
		agent_failure(call, code, text, &err);
	call->ended(call->data, end ? end->status & 0xff : 0, end && end->oom, end ? NULL : &err);
	free(call);
}

int agent_wait(struct agent *agent, const char *id, const char *exec_id, agent_ended_fn ended,
	       void *data, struct err *err)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	return agent_call(
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
	return agent_call(agent, "Signal", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, agent_answered,
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
	return agent_call(agent, "ResizeTerminal", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, agent_answered,
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

	agent_fill_stdio(&streams, process->stdio);
	request.id = (char *)process->id;
	request.exec_id = (char *)process->exec_id;
	request.process = (char *)process->process;
	request.user = (char *)process->user;
	request.cgroup = (char *)process->cgroup;
	request.stdio = &streams;
	return agent_call(agent, "Exec", &request.base, &moat__agent__exec_response__descriptor,
			  timeout_ms, agent_answered,
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
	return agent_call(agent, "DeleteProcess", &request.base, &moat__agent__empty__descriptor,
			  timeout_ms, agent_answered,
			  (struct call){ .what = "forget a process that has ended",
					 .not_found = ERR_NOT_RUNNING,
					 .data = data,
					 .done = done },
			  err);
}
