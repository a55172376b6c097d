/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent: one thread, one loop. It serves moat.agent.Agent to the monitor, makes containers with
 * the namespace engine, moves their standard streams and reaps all processes of the guest.
 */
#pragma once

#include "base/loop.h"
#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct container;

/* What the machine is asked to do; apart, so that tests can run the agent on a host. */
struct machine {
	const char *trees;  /* where the virtio-fs device is mounted: "/run/moat/fs" */
	const char *cgroup; /* agent.first_cgroup */
	/* Start to connect to a port of the host, and wait for it: see guest/vsock.h. */
	int (*connect)(uint32_t port, struct err *err);
	int (*connected)(int fd, uint32_t port, struct err *err);
	/* Take the clock, entropy and name that the host offers. */
	void (*greet)(int64_t realtime_ns, const void *entropy, size_t size, const char *hostname);
	/* See guest/network.h. */
	int (*network)(const Moat__Agent__Network *network, struct err *err);
	/* See guest/repeat.h; NULL: not here. */
	void (*repeat)(const char *trees);
	/* Kill all that runs and sync the file systems: what must be before the machine may end. */
	void (*settle)(void);
};

struct agent {
	struct loop loop;
	const struct machine *machine;
	struct source signals; /* signalfd: SIGCHLD */
	struct ttrpc *control;
	struct container *containers;
	bool use_cgroups;	  /* false where there is no cgroup file system (tests) */
	const char *first_cgroup; /* one that is there already, until a container has it; NULL */
};

/*
 * agent_init() - make the loop and start to reap. Blocks SIGCHLD, ignores SIGPIPE.
 * Returns 0, or -1 with err set; the agent is to be released with agent_close() in both cases.
 */
int agent_init(struct agent *agent, const struct machine *machine, struct err *err);

/*
 * agent_serve() - serve the monitor over a connected socket (owned from now on).
 * The loop is quit when the machine is to end: it was asked to, or the monitor has gone.
 * Returns 0, or -1 with err set.
 */
int agent_serve(struct agent *agent, int fd, struct err *err);

void agent_close(struct agent *agent);

/* --- for exec.c, which answers later -- */
void agent_reply_err(struct ttrpc_call call, const struct err *err);
void agent_reply_exec(struct ttrpc_call call, pid_t pid);
