/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: the monitor's requests and what it is told. The monitor is trusted; what it
 * sends is still checked for its shape, since a port's descriptor comes with it.
 */
#include "vmm/machine.h"

#include "base/fd.h"
#include "base/log.h"
#include "vmm/vsock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

void control_event(struct vmm *vmm, enum vmm_event_type type, uint32_t port)
{
	struct vmm_event event = { .type = type, .port = port };

	if (type == VMM_EVENT_ENDED) {
		event.end = vmm->end;
		memcpy(event.text, vmm->end_text, sizeof(event.text));
	}
	fd_send(vmm->control.fd, &event, sizeof(event), NULL, 0);
}

static void port_add(struct vmm *vmm, const struct vmm_request *request, int *fd)
{
	struct err err;

	if (*fd < 0)
		err_set(&err, EINVAL, "add port %u without a descriptor", request->port);
	else if (vsock_port_add(vmm->vsock, request->port, fd_steal(fd), request->flags, &err) == 0)
		return;
	/* Who waits for the stream's end is not left waiting. */
	log_error("%s", err.text);
	control_event(vmm, VMM_EVENT_PORT_CLOSED, request->port);
}

/* KVM's part of it, for as many queues as it will have. */
static int net_connect(struct vmm *vmm, struct net_device *net, const struct vmm_request *request,
		       unsigned int taps, struct err *err)
{
	net_expect(net, taps);
	return machine_connect(vmm, vmm->first_net + request->port, err);
}

static void net_add(struct vmm *vmm, const struct vmm_request *request, int *fds)
{
	struct vmm_event event = { .type = VMM_EVENT_NET_ADDED, .port = request->port };
	struct net_device *net = &vmm->net[request->port % VMM_NETS_MAX];
	unsigned int taps = 0;
	struct err err;

	while (taps < VMM_NET_PAIRS_MAX && fds[taps] >= 0)
		taps++;
	if (request->port >= vmm->nets || !taps)
		snprintf(event.text, sizeof(event.text), "add network interface %u of %u",
			 request->port, vmm->nets);
	else if (net_connect(vmm, net, request, taps, &err) < 0 ||
		 net_attach(net, fds, taps, request->mac, &err) < 0)
		snprintf(event.text, sizeof(event.text), "%.400s", err.text);
	fd_send(vmm->control.fd, &event, sizeof(event), NULL, 0);
}

static void pause_vcpus(struct vmm *vmm)
{
	if (vmm->run == RUN_GO)
		vcpus_command(vmm, RUN_PAUSE); /* the last one to stand still answers */
	else if (vmm->parked == vmm->vcpu_count)
		control_event(vmm, VMM_EVENT_PAUSED, 0);
}

static int serve(struct vmm *vmm, const struct vmm_request *request, int *fds, struct err *err)
{
	switch (request->type) {
	case VMM_REQUEST_PORT_ADD:
		port_add(vmm, request, &fds[0]);
		return 0;
	case VMM_REQUEST_PORT_REMOVE:
		vsock_port_remove(vmm->vsock, request->port);
		return 0;
	case VMM_REQUEST_NET_ADD:
		net_add(vmm, request, fds);
		return 0;
	case VMM_REQUEST_PAUSE:
		pause_vcpus(vmm);
		return 0;
	case VMM_REQUEST_RESUME:
		vcpus_command(vmm, RUN_GO);
		control_event(vmm, VMM_EVENT_RESUMED, 0);
		return 0;
	case VMM_REQUEST_STOP:
		machine_end(vmm, VMM_END_STOPPED, "the machine was stopped");
		return 0;
	default:
		return err_set(err, EPROTO, "take request %u from the monitor", request->type);
	}
}

static int control_ready(struct source *source, uint32_t events, struct err *err)
{
	struct vmm *vmm = source->data;
	struct vmm_request request;
	int fds[VMM_NET_PAIRS_MAX], r = 0;
	ssize_t n = fd_receive(source->fd, &request, sizeof(request), fds, VMM_NET_PAIRS_MAX);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		machine_end(vmm, VMM_END_STOPPED, "the monitor has ended");
	else if (n != sizeof(request))
		r = err_set(err, EPROTO, "take a request of %zd bytes from the monitor", n);
	else
		r = serve(vmm, &request, fds, err);
	for (unsigned int i = 0; i < VMM_NET_PAIRS_MAX; i++)
		fd_replace(&fds[i], -1);
	return r;
}

void control_catch_up(struct vmm *vmm)
{
	struct pollfd ready = { .fd = vmm->control.fd, .events = POLLIN };
	struct err err;

	while (!vmm->end && poll(&ready, 1, 0) > 0)
		if (control_ready(&vmm->control, EPOLLIN, &err) < 0)
			machine_end(vmm, VMM_END_ERROR, "%s", err.text);
}

int control_init(struct vmm *vmm, int fd, struct err *err)
{
	vmm->control = (struct source){ .fd = fd, .ready = control_ready, .data = vmm };
	return loop_watch(&vmm->loop, &vmm->control, EPOLLIN, err);
}
