/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The monitor's part of a start: taps go to the vmm, and when it has put network cards in the
 * guest's sight, the agent is told of them and starts the program.
 */
#include "base/fd.h"
#include "oci/settings.h"
#include "vm/control.h"
#include "vm/monitor.h"
#include "vm/start.h"
#include "vmm/vmm.h"

#include <string.h>

/* Part of a network cannot be taken back, and a program that has not begun may begin yet: the
 * machine is of no use. */
static void give_up(struct monitor *monitor, struct client *client, struct err *err)
{
	starting_close(monitor, true);
	err_hint(err, "the machine is switched off");
	client_reply(client, err);
	monitor_stop(monitor, MONITOR_STATUS_LOST);
}

static void started(void *data, const struct err *err)
{
	struct client *client = data;
	struct monitor *monitor = client->monitor;
	struct err late;

	if (err && err->code == ETIMEDOUT) {
		late = *err;
		give_up(monitor, client, &late);
		return;
	}
	if (!err && monitor->phase == PHASE_CREATED)
		monitor->phase = PHASE_RUNNING;
	if (!err)
		monitor_note("started");
	starting_close(monitor, false);
	client_reply(client, err);
}

static void start_program(struct client *client)
{
	struct monitor *monitor = client->monitor;
	uint64_t patience = start_patience(monitor->container) * 1000ull;
	struct err err;

	client->waiting = true;
	if (agent_start(monitor->agent, monitor->container->id, monitor->starting.network, patience,
			started, client, &err) < 0)
		started(client, &err);
}

/* What the command found: checked like all that comes from outside. */
static Moat__Agent__Network *read_network(int fd, uint32_t size, struct err *err)
{
	_cleanup_free_ uint8_t *packed = NULL;
	Moat__Agent__Network *network;

	if (!size || size > CONTROL_TEXT_MAX)
		return err_set(err, EINVAL, "take a network of %u bytes", size), NULL;
	packed = xcalloc(1, size);
	if (fd_read_full(fd, packed, size) != (ssize_t)size)
		return err_set(err, EIO, "take a network of %u bytes", size), NULL;
	network = moat__agent__network__unpack(NULL, size, packed);
	if (!network)
		err_set(err, EBADMSG, "take a network of %u bytes", size);
	return network;
}

/* count: of each one's queues. */
static int send_taps(struct monitor *monitor, const int *taps, uint32_t count, struct err *err)
{
	const Moat__Agent__Network *network = monitor->starting.network;

	if (!network->n_interfaces || network->n_interfaces > monitor->machine->nets)
		return err_set(err, 0, "the machine has places for %u network interfaces, not %zu",
			       monitor->machine->nets, network->n_interfaces);
	if (!count || count > VMM_NET_PAIRS_MAX)
		return err_set(err, EINVAL, "take network interfaces of %u queues", count);
	for (uint32_t i = 0; i < network->n_interfaces; i++, taps += count) {
		struct vmm_request request = { .type = VMM_REQUEST_NET_ADD, .port = i };

		if (network->interfaces[i]->mac.len != sizeof(request.mac) || taps[0] < 0)
			return err_set(err, EINVAL, "take network interface %u", i);
		memcpy(request.mac, network->interfaces[i]->mac.data, sizeof(request.mac));
		if (fd_send(monitor->machine->vmm_fd, &request, sizeof(request), taps, count) < 0)
			return err_set(err, errno, "give network interface %u to the vmm", i);
		monitor->starting.waiting++;
	}
	return 0;
}

static void network_failed(struct monitor *monitor, struct err *err)
{
	err_wrap(err, "give the microVM its network");
	give_up(monitor, monitor->starting.client, err);
}

static void wait_for_network(struct monitor *monitor, int *table)
{
	fd_replace(&monitor->network_table, fd_steal(table));
	if (!monitor->killed)
		monitor_set_timer(monitor, monitor->container->settings->guest_timeout * 1000);
}

void starting_late(struct monitor *monitor)
{
	struct err err;

	err_set(&err, ETIMEDOUT, "the vmm does not answer");
	network_failed(monitor, &err);
}

void starting_begin(struct client *client, const struct control_request *request, int *fds)
{
	struct monitor *monitor = client->monitor;
	struct starting *starting = &monitor->starting;
	struct err err;

	if (monitor->phase != PHASE_CREATED || starting->client ||
	    (request->size && monitor->network_table >= 0)) {
		client_refuse(client,
			      "the container cannot be started: it is not in the state created");
		return;
	}
	starting->client = client;
	monitor_take_size(monitor); /* before the program can ask for it */
	if (!request->size) {
		start_program(client);
		return;
	}
	client->waiting = true;
	starting->network = read_network(fds[0], request->size, &err);
	if (!starting->network || send_taps(monitor, fds + 2, request->taps, &err) < 0)
		network_failed(monitor, &err);
	else
		wait_for_network(monitor, &fds[1]);
}

void starting_net_added(struct monitor *monitor, const struct vmm_event *event)
{
	struct starting *starting = &monitor->starting;
	struct err err;

	if (!starting->waiting)
		return;
	starting->waiting--;
	if (event->text[0]) {
		err_set(&err, 0, "the vmm cannot take network interface %u", event->port);
		network_failed(monitor, &err);
	} else if (!starting->waiting) {
		if (!monitor->killed)
			monitor_set_timer(monitor, 0);
		start_program(starting->client);
	}
}

void starting_close(struct monitor *monitor, bool table_too)
{
	if (monitor->starting.network)
		moat__agent__network__free_unpacked(monitor->starting.network, NULL);
	monitor->starting = (struct starting){ 0 };
	if (table_too)
		fd_replace(&monitor->network_table, -1);
}
