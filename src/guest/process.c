/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a process. Its status is told after its output: once the last writer has gone, or,
 * where a child in the background keeps the pipe open, once nothing was left to be read for a
 * while.
 */
#include "guest/process.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/sandbox.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

/* How often to look whether what others hold open has fallen silent. */
#define GRACE_MS 100

struct process *process_new(struct agent *agent, const char *exec_id)
{
	struct process *process = xcalloc(1, sizeof(*process));

	process->agent = agent;
	process->exec_id = xstrdup(exec_id);
	process->pid = -1;
	streams_init(&process->streams);
	return process;
}

static void answer(const struct process *process, struct ttrpc_call call)
{
	Moat__Agent__WaitResponse response = MOAT__AGENT__WAIT_RESPONSE__INIT;

	response.status = process->status;
	response.oom = process->oom;
	ttrpc_reply(call, &response.base);
}

static void stop_grace(struct process *process)
{
	if (!process->grace.data)
		return;
	loop_forget(&process->agent->loop, &process->grace);
	fd_replace(&process->grace.fd, -1);
	process->grace.data = NULL;
}

static void report(struct process *process)
{
	stop_grace(process);
	process->reported = true;
	for (size_t i = 0; i < process->n_waiters; i++)
		answer(process, process->waiters[i]);
	process->n_waiters = 0;
}

static int grace_over(struct source *source, uint32_t events, struct err *err)
{
	struct process *process = source->data;
	uint64_t expirations;

	(void)!read(source->fd, &expirations, sizeof(expirations));
	if (streams_is_drained(&process->streams))
		report(process);
	return 0;
}

static int start_grace(struct process *process)
{
	struct itimerspec often = { { 0, GRACE_MS * 1000000L }, { 0, GRACE_MS * 1000000L } };

	process->grace = (struct source){
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
		.ready = grace_over,
		.data = process,
	};
	if (process->grace.fd < 0 || timerfd_settime(process->grace.fd, 0, &often, NULL) < 0)
		return -1;
	return loop_watch(&process->agent->loop, &process->grace, EPOLLIN, NULL);
}

void process_exited(struct process *process, int wait_status, bool oom)
{
	process->exited = true;
	process->status = (uint32_t)proc_status_code(wait_status);
	process->oom = oom;
	if (streams_has_ended(&process->streams) || start_grace(process) < 0)
		report(process);
}

void process_output_ended(struct streams *streams)
{
	struct process *process =
		(struct process *)((char *)streams - offsetof(struct process, streams));

	if (process->exited && !process->reported && streams_has_ended(streams))
		report(process);
}

void process_wait(struct process *process, struct ttrpc_call call)
{
	if (process->reported) {
		answer(process, call);
		return;
	}
	process->waiters =
		xrealloc(process->waiters, process->n_waiters + 1, sizeof(process->waiters[0]));
	process->waiters[process->n_waiters++] = call;
}

static void kill_and_reap(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void process_free(struct process *process)
{
	if (process->begun) {
		loop_forget(&process->agent->loop, &process->begins);
		sandbox_exec_forget(steal(process->begun), process->exited);
	} else if (process->pid > 0 && !process->exited) {
		kill_and_reap(process->pid);
	}
	stop_grace(process);
	streams_close(&process->streams);
	for (size_t i = 0; i < process->n_waiters; i++)
		ttrpc_reply_error(process->waiters[i], TTRPC_NOT_FOUND,
				  "the process was deleted meanwhile");
	free(process->waiters);
	free(process->exec_id);
	free(process);
}
