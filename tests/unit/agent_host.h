/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's agent on a host: PID 1 of a pid and mount namespace of its own, with a busybox root
 * file system, and sockets in the place of vsock.
 */
#pragma once

#include "base/loop.h"
#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"

#include <stdbool.h>
#include <sys/types.h>

#define HOST_PORT_FIRST 16
#define HOST_PORTS	8

struct host {
	struct loop loop;
	struct ttrpc *client;
	pid_t pid;		 /* the agent */
	int streams[HOST_PORTS]; /* our end of port HOST_PORT_FIRST + i */
	char directory[64];	 /* the tree of the root file system is its entry "0" */
};

/* The last answer. */
struct reply {
	struct host *host;
	unsigned int count;
	uint32_t code;
	char text[512];
	uint32_t number; /* Wait: the status; CreateContainer: the pid */
};

/* host_missing() - what the tests need and this machine has not; NULL: all is there. */
const char *host_missing(void);
/* host_of() - cmocka's state as a host; the test is skipped where something is missing. */
struct host *host_of(void **state);

void host_start(struct host *host);
/* host_stop() - end the agent and remove what was made. Returns its exit status. */
int host_stop(struct host *host);

/* host_call() - call and wait for the answer. Returns its code. */
uint32_t host_call(struct host *host, const char *method, const ProtobufCMessage *request,
		   struct reply *reply);

/* host_begin() - call only: the answer comes while others are waited for. */
void host_begin(struct host *host, const char *method, const ProtobufCMessage *request,
		struct reply *reply);

/* The same in words. @namespaces: JSON of a list's inside. @terminal: one stream, both ways. */
uint32_t host_create(struct host *host, const char *id, const char *namespaces, const char *script,
		     bool terminal, struct reply *reply);
/* @first: its streams are host->streams[first] and those that follow. */
uint32_t host_exec(struct host *host, const char *exec_id, const char *script, bool terminal,
		   int first, struct reply *reply);
uint32_t host_start_container(struct host *host, const char *id);
uint32_t host_delete(struct host *host, const char *id);
uint32_t host_signal(struct host *host, const char *id, uint32_t signal);
/* host_wait() - returns the exit status, or -1. */
int host_wait(struct host *host, const char *id);
/* host_wait_exec() - the same for a further process of container "c". */
int host_wait_exec(struct host *host, const char *exec_id);

/* host_read() - what a stream gives until its end, as text. The caller frees it. */
char *host_read(struct host *host, int stream);
