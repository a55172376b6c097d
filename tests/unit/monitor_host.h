/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A monitor without a machine: the test is the vmm and the agent, whose answers may be late,
 * missing, or nonsense.
 */
#pragma once

#include "rpc/ttrpc.h"
#include "vm/monitor.h"

#define HOST_CALLS_MAX 64

/* A call that came to the agent, in words: "Exec e1 USER PROCESS", "Signal e1 9". */
struct host_call {
	char text[128];
	struct ttrpc_call call;
};

extern struct monitor monitor;
extern struct machine machine;
extern struct ttrpc *agent;
extern struct host_call seen[HOST_CALLS_MAX];
extern size_t n_seen;

int host_setup(void **state);
/* host_teardown() - the agent goes first: calls that are open are then answered. */
int host_teardown(void **state);

/* host_run() - let all that is ready be done. */
void host_run(void);

/* expect_seen() - call number index was this. */
void expect_seen(size_t index, const char *text);

/* answer() - with an empty message; answer_with() - with this one; refuse() - with an error. */
void answer(size_t index);
void answer_with(size_t index, const ProtobufCMessage *message);
void refuse(size_t index, enum ttrpc_code code, const char *text);

/* expect_vmm() - a request came to the vmm, with a descriptor where that belongs to it. */
void expect_vmm(uint32_t type, uint32_t port);
/* expect_port() - the vmm was given a port, with its descriptor. Returns which. */
uint32_t expect_port(void);
/* expect_reply() - a struct err came over the connection with these words; "": with none. */
void expect_reply(int fd, const char *words);
void expect_silence(int fd);
