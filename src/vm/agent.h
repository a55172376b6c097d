/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the monitor asks of the agent in the guest (proto/agent.proto), as calls with callbacks.
 * Every answer comes from a hostile machine: it is bounded, and texts are printable.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "engine/engine.h"
#include "rpc/agent.pb-c.h"
#include "vm/streams.h"
#include "vm/trees.h"

struct agent;
struct machine;
struct oci_config;

/* How a call ended: err is NULL where it succeeded. */
typedef void (*agent_done_fn)(void *data, const struct err *err);
/* The workload ended with a status, or err says why it cannot be known. */
typedef void (*agent_ended_fn)(void *data, uint32_t status, bool oom, const struct err *err);
/* A text that was asked for, or err says why there is none. */
typedef void (*agent_text_fn)(void *data, const char *text, const struct err *err);
/* A number that was asked for, likewise. */
typedef void (*agent_count_fn)(void *data, uint64_t count, const struct err *err);

#define AGENT_STATS_MAX 65536u /* bytes of the text */

/*
 * agent_new() - a client over fd, which it owns.
 * @closed: called once when the connection has ended; open calls were ended before.
 */
struct agent *agent_new(struct loop *loop, int fd, void (*closed)(void *data, const char *text),
			void *data, struct err *err);
void agent_free(struct agent *agent);

/* Each returns 0, or -1 with err set; then the callback is not called. */
int agent_hello(struct agent *agent, const char *hostname, uint64_t timeout_ms, agent_done_fn done,
		struct err *err);
int agent_create(struct agent *agent, const struct machine *machine, uint64_t timeout_ms,
		 agent_done_fn done, struct err *err);
/* @network: what to make of the guest's; NULL: nothing. */
int agent_start(struct agent *agent, const char *id, Moat__Agent__Network *network,
		uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err);
/* exec_id: "" for the container's first process. */
int agent_wait(struct agent *agent, const char *id, const char *exec_id, agent_ended_fn ended,
	       void *data, struct err *err);
int agent_signal(struct agent *agent, const char *id, const char *exec_id, uint32_t signal,
		 bool all, uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err);
int agent_resize(struct agent *agent, const char *id, const char *exec_id, uint32_t rows,
		 uint32_t columns, uint64_t timeout_ms, agent_done_fn done, void *data,
		 struct err *err);

/* resources: JSON of linux.resources. */
int agent_update(struct agent *agent, const char *id, const char *resources, uint64_t timeout_ms,
		 agent_done_fn done, void *data, struct err *err);

/* The text, made by a hostile guest, is JSON if it is true; it is freed after the call. */
int agent_stats(struct agent *agent, const char *id, uint64_t timeout_ms, agent_text_fn told,
		void *data, struct err *err);
/* JSON of moat_processes (libocispec/processes.oci), which the guest could fill but not break. */
int agent_processes(struct agent *agent, const char *id, uint64_t timeout_ms, agent_text_fn told,
		    void *data, struct err *err);

/* Told when the number of processes that the guest's OOM killer has ended is not `seen`. */
int agent_watch_memory(struct agent *agent, const char *id, uint64_t seen, agent_count_fn counted,
		       void *data, struct err *err);

/* A further process. */
struct agent_process {
	const char *id;
	const char *exec_id;
	const char *process; /* JSON */
	const char *user;    /* "": the process's */
	const char *cgroup;  /* "": the container's */
	const struct stdio *stdio;
};
int agent_exec(struct agent *agent, const struct agent_process *process, uint64_t timeout_ms,
	       agent_done_fn done, void *data, struct err *err);
int agent_delete_process(struct agent *agent, const char *id, const char *exec_id,
			 uint64_t timeout_ms, agent_done_fn done, void *data, struct err *err);

int agent_shutdown(struct agent *agent, agent_done_fn done, struct err *err);
