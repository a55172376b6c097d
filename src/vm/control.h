/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.sock in the state directory (SOCK_SEQPACKET): how moat's commands reach the monitor. One
 * request and one reply a connection; that of CONTROL_EXEC goes on until the process has ended.
 * Only the user whom the monitor runs as, and root, are heard (SO_PEERCRED).
 */
#pragma once

#include "base/err.h"
#include "vm/streams.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum control_type {
	/*
	 * Run the user's program; replied to when it runs. The container's network, where it has
	 * one: file, a struct Moat__Agent__Network; then the socket of the table that forwards it;
	 * then the tap of each interface: `taps` descriptors, its queues.
	 */
	CONTROL_START = 1,
	CONTROL_KILL, /* send a signal; replied to when it is sent */
	/*
	 * Run a further process: file, then its streams' descriptors. Replied to when its program
	 * runs. Then the client may send CONTROL_KILL and CONTROL_RESIZE, without replies, and gets
	 * a struct control_end. A client that goes away before that has its process killed.
	 */
	CONTROL_EXEC,
	CONTROL_RESIZE, /* its terminal has a new size */
	CONTROL_PAUSE,	/* replied to when nothing of the guest runs any more */
	CONTROL_RESUME,
	CONTROL_UPDATE, /* file: JSON of linux.resources, the limits that change */
	/* file: gets the answer, JSON of moat_stats or of moat_processes */
	CONTROL_STATS,
	CONTROL_PROCESSES,
	/*
	 * After the reply: each time memory runs out a uint64_t, how many processes of the
	 * container the OOM killer has ended so far.
	 */
	CONTROL_WATCH,
};

/* A descriptor that comes with the request, after the file. */
struct control_stream {
	uint32_t present;
	uint32_t flags; /* enum vmm_port_flags */
};

struct control_request {
	uint32_t type;
	uint32_t signal;
	uint32_t all;
	/*
	 * Texts do not fit into a datagram: they are in a file (memfd_create(2)), the first
	 * descriptor, from its offset on. CONTROL_EXEC: USER, CGROUP and the process's JSON, each
	 * with a NUL behind it; an empty one is none.
	 */
	uint32_t size;
	struct control_stream stream[3];
	uint32_t terminal; /* stream[0] is one */
	uint32_t rows, columns;
	uint32_t taps; /* for each interface */
};

#define CONTROL_DESCRIPTORS 34	       /* with one request */
#define CONTROL_TEXT_MAX    (2u << 20) /* bytes of a file */

/* The reply is a struct err: its text is empty where all went well. */

struct control_end {
	uint32_t status; /* 0-255, or 128 + signal */
};

/* control_listen() - make the socket. Returns a listening, non-blocking one, or -1 with err set. */
int control_listen(int state_fd, struct err *err);

/*
 * control_accept() - take a connection from a listening socket.
 * Returns it, non-blocking; -1 where there is none, or one from somebody else (it is closed).
 */
int control_accept(int listen_fd);

/* For what the monitor gives up by itself after about ten seconds: it has then stopped, too. */
#define CONTROL_PATIENCE_S 60u

/* control_guest_patience() - the same for what waits for the guest, so many seconds at most. */
#define control_guest_patience(seconds) ((seconds) + CONTROL_PATIENCE_S)

/*
 * control_connect() - patience: seconds that control_reply() waits. Returns a connection to the
 * monitor, or -1 with err set; ERR_NOT_RUNNING where there is none.
 */
int control_connect(int state_fd, uint32_t patience, struct err *err);

/* control_send() - send a request with its descriptors, which stay the caller's. 0, or -1. */
int control_send(int fd, const struct control_request *request, const int *fds, size_t count,
		 struct err *err);

/*
 * control_reply() - wait for the reply.
 * Returns 0, or -1 with err set to what the monitor said; ERR_NOT_RUNNING where it has gone.
 */
int control_reply(int fd, struct err *err);

/* control_call() - all three of them, for a request without descriptors. */
int control_call(int state_fd, const struct control_request *request, struct err *err);

/*
 * control_ask() - the same for CONTROL_STATS and CONTROL_PROCESSES.
 * Returns the answer, a string that the caller frees, or NULL with err set.
 */
char *control_ask(int state_fd, enum control_type type, struct err *err);

/* control_text() - Returns a file with size bytes of text, to be read from 0 on, or -1. */
int control_text(const void *text, size_t size, struct err *err);

/* control_remove() - remove the socket's file. */
void control_remove(int state_fd);
