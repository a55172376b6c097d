/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ports that the guest may connect to: the vmm is given each with its descriptor. */
#include "vm/machine.h"

#include "base/fd.h"
#include "vmm/vmm.h"

#include <sys/socket.h>

int machine_add_port(struct machine *machine, uint32_t port, int fd, uint32_t flags,
		     struct err *err)
{
	struct vmm_request request = { .type = VMM_REQUEST_PORT_ADD, .port = port, .flags = flags };

	if (fd_send(machine->vmm_fd, &request, sizeof(request), &fd, 1) < 0)
		return err_set(err, errno, "give port %u to the vmm", port);
	return 0;
}

void machine_remove_port(struct machine *machine, uint32_t port)
{
	struct vmm_request request = { .type = VMM_REQUEST_PORT_REMOVE, .port = port };

	(void)fd_send(machine->vmm_fd, &request, sizeof(request), NULL, 0);
}

/* The guest may connect as soon as it is up; a port that is not there yet would be refused. */
int machine_add_ports(struct machine *machine, struct err *err)
{
	_cleanup_fd_ int guest_end = -1;
	int pair[2];

	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	machine->agent_fd = pair[0];
	guest_end = pair[1];
	if (machine_add_port(machine, VMM_PORT_CONTROL, guest_end,
			     VMM_PORT_READ | VMM_PORT_WRITE | VMM_PORT_SOCKET, err) < 0)
		return -1;
	for (int i = 0; i < 3; i++) {
		struct stream_port *stream = &machine->stdio.stream[i];

		if (stream->port &&
		    machine_add_port(machine, stream->port, stream->fd, stream->flags, err) < 0)
			return -1;
	}
	return 0;
}
