/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The monitor: the process that an engine sees as the container. It owns the machine, serves the
 * control socket, and ends with the workload's status.
 */
#pragma once

#include "base/loop.h"
#include "cgroup/oom_tell.h"
#include "vm/agent.h"
#include "vm/machine.h"
#include "vm/record.h"

#include <signal.h>

struct control_request;
struct execution;
struct vmm_event;

#define MONITOR_CLIENTS_MAX  32
#define MONITOR_WATCHERS_MAX 8 /* of the memory; they stay */

/* Where the workload cannot have ended by itself: as if it had been killed. */
#define MONITOR_STATUS_LOST 137

enum phase {
	PHASE_BOOTING,	/* until the agent says hello */
	PHASE_CREATING, /* the agent makes the container */
	PHASE_CREATED,
	PHASE_RUNNING,
	PHASE_DRAINING, /* the workload has ended, its last output is on its way */
	PHASE_ENDING,	/* the guest shuts down */
	PHASE_OVER,
};

/* A connection to the control socket, from its request to the reply. */
struct client {
	struct monitor *monitor;
	struct source source; /* fd -1: it has gone, or was never there */
	bool waiting;	      /* a call to the agent is open for it */
	bool watching;	      /* is told when memory runs out */
	int file;	      /* for the answer; -1: none */
	uint32_t signal;      /* that it asked for */
};

/* A pause or its end, and what was learned before it. */
struct pausing {
	struct client *client;	 /* who asked for what is being done; NULL: nothing is */
	bool resume;		 /* what it asked for */
	bool asked;		 /* the vmm was told, and has not said yet that it is so */
	bool paused;		 /* as the vmm has said */
	char *stats, *processes; /* the guest's last words; NULL: it had none */
	struct source timer;	 /* fd 0: not needed yet */
};

/* What the agent tells of lack of memory. */
struct watching {
	bool asked;	     /* it was, to tell, or is about to be */
	bool first;	     /* it has not answered yet */
	bool resting;	     /* it is asked again when the timer has run out */
	uint64_t oom_kills;  /* as it told last */
	struct source timer; /* fd 0: not needed yet */
};

/* A start, until it is answered. */
struct starting {
	struct client *client;	       /* who asked for it; NULL: nobody */
	Moat__Agent__Network *network; /* NULL: none */
	unsigned int waiting;	       /* interfaces that the vmm has not yet said it has */
};

struct monitor {
	struct machine *machine;
	const struct container *container;
	struct loop loop;
	struct agent *agent;
	enum phase phase;
	int status;		 /* to end with */
	int ready_fd;		 /* where create waits for a struct err; -1 once it was told */
	int64_t started;	 /* when the guest began to boot, in seconds of CLOCK_MONOTONIC */
	uint32_t undrained;	 /* bit N: stream N of the workload may still have output */
	uint32_t last_execution; /* a number for each of them */
	struct execution *executions;
	unsigned int n_executions;
	struct pausing pausing;
	struct watching watching;
	bool ran_out;	      /* of memory: the guest killed a process of the workload */
	bool agent_gone;      /* its connection is closed; the vmm may say why */
	bool killed;	      /* SIGKILL was sent: the end is near, or made */
	bool given_up;	      /* after the workload's end: they are not waited for any more */
	struct err suspicion; /* why the vmm ended, unless fsd has a better reason */
	struct record record;
	struct starting starting;
	int network_claim; /* makes the network namespace ours alone; -1: there is none */
	int oom_count;	   /* cgroup_oom_open(); -1: none */
	struct oom_teller oom_teller;
	int network_table; /* holds what forwards the container's network; -1: nothing */
	struct source vmm, vmm_exit, fsd_exit, diskd_exit, signals, listener, timer;
	struct client clients[MONITOR_CLIENTS_MAX];
};

/*
 * monitor_main() - the process's whole life, from the fork on. What create is to hear goes to
 * ready_fd. Returns the exit status.
 */
int monitor_main(struct machine *machine, int ready_fd);

/* --- monitor.c, for the others -- */

/* monitor_check_boot() - have end_of_time() called, to look whether the guest still boots. */
void monitor_check_boot(struct monitor *monitor);

/* monitor_set_timer() - have end_of_time() called; 0: not any more. */
void monitor_set_timer(struct monitor *monitor, unsigned int ms);

/* monitor_check_drained() - shut down where the workload has ended, and all output is delivered. */
void monitor_check_drained(struct monitor *monitor);

/* monitor_take_size() - tell the guest of a new size of the terminal. Returns whether there was. */
bool monitor_take_size(struct monitor *monitor);

/*
 * monitor_timeout() - how long to wait for the agent's answer: ms, or for ever where it is paused.
 */
unsigned int monitor_timeout(const struct monitor *monitor, unsigned int ms);

/* monitor_over() - leave the loop: what is still there is killed. */
void monitor_over(struct monitor *monitor);

/* monitor_fail() - the machine cannot go on: tell create, or the log, and end. */
void monitor_fail(struct monitor *monitor, const struct err *err);

/* monitor_stop() - end the machine at once, with a status. */
void monitor_stop(struct monitor *monitor, int status);

/* monitor_note() - a step, with its time, in the log of --debug. */
void monitor_note(const char *step);

/* --- ends.c: ends that nobody asked for -- */

/* end_of_machine() - the vmm says why the guest has ended. */
void end_of_machine(struct monitor *monitor, const struct vmm_event *event);

/* end_of_child() - the vmm or fsd is no more; reaps it. */
void end_of_child(struct monitor *monitor, struct child *child, enum role role);

/* end_of_time() - the timer has run out. */
int end_of_time(struct source *source, uint32_t events, struct err *err);

/* --- lack.c: lack of memory -- */

/* lack_open() - watch for it, before the jail is closed. Where that cannot be, nothing is told. */
void lack_open(struct monitor *monitor);
/* lack_close() - when nothing is left of the machine: tell engines of what the guest killed. */
void lack_close(struct monitor *monitor);

/* --- requests.c: what others ask of the monitor -- */

/* requests_init() - listen on the control socket, take signals. Returns 0, or -1 with err set. */
int requests_init(struct monitor *monitor, struct err *err);
void requests_close(struct monitor *monitor);

/* requests_signals() - the signals that are passed on to a process in the guest. */
void requests_signals(sigset_t *set);

/* client_reply() - the answer to a request; NULL: it was done. client_refuse() - it cannot be. */
void client_reply(struct client *client, const struct err *err);
void client_refuse(struct client *client, const char *reason);

/* --- pausing.c: pause and resume -- */

void pausing_begin(struct client *client, bool resume);
/* pausing_event() - the vmm has done so: VMM_EVENT_PAUSED or VMM_EVENT_RESUMED. */
void pausing_event(struct monitor *monitor, uint32_t type);
void pausing_close(struct monitor *monitor);

/* --- asking.c: questions, and limits. file: where the answer goes; it is taken. -- */

void asking_begin(struct client *client, bool processes, int *file);
void asking_update(struct client *client, const struct control_request *request, int file);

/* --- watching.c: lack of memory in the guest -- */

void watching_begin(struct client *client);
/* watching_last() - the workload has ended: what there is to tell of it is told without delay. */
void watching_last(struct monitor *monitor);
void watching_close(struct monitor *monitor);

/* --- starting.c: the start of the workload -- */

void starting_begin(struct client *client, const struct control_request *request, int *fds);
void starting_net_added(struct monitor *monitor, const struct vmm_event *event);
/* starting_late() - the vmm has not said in time that it has the network. */
void starting_late(struct monitor *monitor);
/* starting_close() - forget what was begun. @table_too: and what forwards the network. */
void starting_close(struct monitor *monitor, bool table_too);
