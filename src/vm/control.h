/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.sock in the state directory (SOCK_SEQPACKET): how `moat start` and `moat kill` reach the
 * monitor. One request and one reply a connection. Only the user whom the monitor runs as, and
 * root, are heard (SO_PEERCRED).
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum control_type {
	CONTROL_START = 1, /* run the user's program; replied to when it runs */
	CONTROL_KILL,	   /* send a signal; replied to when it is sent */
};

struct control_request {
	uint32_t type;
	uint32_t signal;
	uint32_t all;
};

/* The reply is a struct err: its text is empty where all went well. */

/* control_listen() - make the socket. Returns a listening, non-blocking one, or -1 with err set. */
int control_listen(int state_fd, struct err *err);

/*
 * control_accept() - take a connection from a listening socket.
 * Returns it, non-blocking; -1 where there is none, or one from somebody else (it is closed).
 */
int control_accept(int listen_fd);

/*
 * control_call() - send a request and wait for the reply.
 * Returns 0, or -1 with err set to what the monitor said; ERR_NOT_RUNNING where there is none.
 */
int control_call(int state_fd, const struct control_request *request, struct err *err);

/* control_remove() - remove the socket's file. */
void control_remove(int state_fd);
