/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the agent's client share: a call, from its request to its callback. */
#pragma once

#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"
#include "vm/agent.h"

/* One open call. */
struct call {
	const char *what; /* for messages: "start the container in the guest" */
	int not_found;	  /* enum err_special that TTRPC_NOT_FOUND means here */
	void *data;
	agent_done_fn done; /* one of these, as the answer function wants it */
	agent_ended_fn ended;
	agent_text_fn told;
	agent_count_fn counted;
};

/*
 * agent_call() - have the agent called; answer gets a copy of template, which it is to free.
 * Returns 0, or -1 with err set.
 */
int agent_call(struct agent *agent, const char *method, const ProtobufCMessage *request,
	       const ProtobufCMessageDescriptor *response, uint64_t timeout_ms,
	       ttrpc_answer_fn answer, struct call template, struct err *err);

/*
 * agent_failure() - what the agent said goes to the user as it is; failures of the way to it say
 * where they were.
 */
void agent_failure(const struct call *call, uint32_t code, const char *text, struct err *err);

/*
 * agent_answered() - the answer function of calls whose answer says no more than that it is done.
 */
void agent_answered(void *data, const ProtobufCMessage *response, uint32_t code, const char *text);

void agent_fill_stdio(Moat__Agent__Stdio *message, const struct stdio *stdio);
