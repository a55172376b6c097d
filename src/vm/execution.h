/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Further processes, as the monitor sees them: each has a client, the process on the host that
 * stands for it (standin.c), ports for its streams, and an id that the agent knows it by.
 */
#pragma once

#include "vm/control.h"
#include "vm/monitor.h"

#define EXECUTIONS_MAX 128u /* at once */

/*
 * execution_begin() - run one. The client gets the reply, and the end.
 * @client: a connection, owned from now on.
 * @fds: CONTROL_DESCRIPTORS; those that are used are taken out.
 */
void execution_begin(struct monitor *monitor, const struct control_request *request, int client,
		     int *fds);

/* execution_port_closed() - all that the guest sent to a port was delivered. */
void execution_port_closed(struct monitor *monitor, uint32_t port);

/* executions_close() - forget all. */
void executions_close(struct monitor *monitor);
