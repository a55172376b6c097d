/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The containers of the guest: made by the namespace engine, known by id. */
#pragma once

#include "guest/config.h"
#include "guest/memory_events.h"
#include "guest/process.h"
#include "rpc/agent.pb-c.h"

struct container {
	struct agent *agent;
	struct container *next;
	char *id;
	char *bundle;
	char *cgroup; /* "/ID"; NULL: none */
	struct guest_config config;
	int start_socket; /* to its init, until it was started; -1 */
	bool started;
	struct process *init;
	struct process *others; /* those of exec */
	struct memory_events memory_events;
};

/*
 * container_create() - make one; its init waits for container_start().
 * Returns it, in the agent's list, or NULL with err set and nothing left.
 */
struct container *container_create(struct agent *agent,
				   const Moat__Agent__CreateContainerRequest *request,
				   struct err *err);

/* container_find() - NULL with err set (ERR_NO_CONTAINER) where there is none of that id. */
struct container *container_find(const struct agent *agent, const char *id, struct err *err);

/* container_process() - @exec_id: "" for the first one. NULL with err set (ERR_NO_CONTAINER). */
struct process *container_process(const struct agent *agent, const char *id, const char *exec_id,
				  struct err *err);

/*
 * container_start() - run the user's program.
 * @network: what to make of the guest's network before; NULL: nothing. 0, or -1 with err set.
 */
int container_start(struct container *container, const Moat__Agent__Network *network,
		    struct err *err);

/*
 * container_exec() - run a further process.
 * @call: answered when its program runs, or cannot be run.
 * Returns 0, or -1 with err set, nothing left, and the call to be answered by the caller.
 */
int container_exec(struct agent *agent, const Moat__Agent__ExecRequest *request,
		   struct ttrpc_call call, struct err *err);

/*
 * container_exec_begun() - its program runs, or it has ended: answer the call. Returns whether
 * there was a program; if not, the process is forgotten.
 */
bool container_exec_begun(struct process *process);

/* container_delete_process() - forget one of container_exec() that has ended. 0, or -1. */
int container_delete_process(struct container *container, struct process *process, struct err *err);

/*
 * container_signal() - to one process.
 * Returns 0, or -1 with err set, ERR_NO_CONTAINER: it has ended.
 */
int container_signal(const struct process *process, int signal, struct err *err);

/* container_signal_all() - to all processes of the container. 0, or -1 with err set. */
int container_signal_all(const struct container *container, int signal, struct err *err);

/* container_delete() - forget one that has ended. 0, or -1 with err set: ERR_NOT_RUNNING. */
int container_delete(struct container *container, struct err *err);

/* container_reaped() - a process of the guest has ended: is it one that we know? */
void container_reaped(const struct agent *agent, pid_t pid, int wait_status);

/* container_free_all() - forget all, killing their processes: the agent ends. */
void container_free_all(struct agent *agent);
