/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Starting a container. Only now is its network known: engines put interfaces into its namespace
 * before create, by a hook, or between create and start. The command, which has the rights, makes
 * taps and the table that forwards to them, and hands their descriptors to the monitor, which has
 * no rights; with the last of these descriptors taps and table are gone.
 */
#include "vm/start.h"

#include "base/apart.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "net/network.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "vm/control.h"
#include "vm/rootless.h"
#include "vm/sizing.h"

#include <fcntl.h>
#include <stdio.h>

bool start_has_network(const struct oci_config *config)
{
	for (size_t i = 0; config->linux_ && i < config->linux_->n_namespaces; i++)
		if (str_eq(config->linux_->namespaces[i].type, "network"))
			return true;
	return false;
}

/* Its hooks in the guest have their own time. */
uint32_t start_patience(const struct container *container)
{
	const struct oci_hooks *hooks = container->config->hooks;
	uint64_t seconds = container->settings->guest_timeout;

	for (size_t i = 0; hooks && i < hooks->n_start_container; i++)
		seconds += (uint32_t)hooks->start_container[i].timeout;
	return seconds < START_PATIENCE_MAX ? (uint32_t)seconds : START_PATIENCE_MAX;
}

/* The monitor is in the container's network namespace from its beginning. */
static int open_namespace(const struct container *container, struct err *err)
{
	_cleanup_fd_ int fd = -1;
	enum proc_life life;
	char path[64];
	int code;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)container->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	code = errno;
	/* Asked afterwards: so it was it whose namespace that is. One that ends may have none. */
	life = proc_look(container->pid, container->start_time);
	if (life == PROC_GONE || (fd < 0 && life == PROC_ENDING))
		return err_set(err, ERR_NOT_RUNNING, "the container is not running");
	if (fd < 0)
		return err_set(err, code, "open the container's network namespace");
	return fd_steal(&fd);
}

static int send_network(int socket, const struct network *network, struct err *err)
{
	Moat__Agent__Network *message = network->message;
	size_t count = message->n_interfaces;
	size_t size = moat__agent__network__get_packed_size(message);
	_cleanup_free_ uint8_t *packed = xcalloc(1, size + 1);
	_cleanup_fd_ int text = -1;
	struct control_request request = { .type = CONTROL_START,
					   .size = (uint32_t)size,
					   .taps = network->pairs };
	int fds[CONTROL_DESCRIPTORS];
	size_t used = 2;

	_Static_assert(NETWORK_INTERFACES_MAX * NETWORK_PAIRS_MAX + 2 <= CONTROL_DESCRIPTORS,
		       "all fit");
	if (size > CONTROL_TEXT_MAX)
		return err_set(err, E2BIG, "tell the guest of its network");
	moat__agent__network__pack(message, packed);
	text = control_text(packed, size, err);
	if (text < 0)
		return -1;
	fds[0] = text;
	fds[1] = network->table;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < network->pairs; j++)
			fds[used++] = network->taps[i][j];
	return control_send(socket, &request, fds, used, err);
}

static int find_network(const struct container *container, struct network *network, struct err *err)
{
	_cleanup_fd_ int namespace = open_namespace(container, err);
	struct machine_size size;

	if (namespace < 0)
		return -1;
	if (!rootless_one_way()) {
		if (sizing_choose(container->config, container->settings, &size, err) < 0)
			return -1;
		return network_attach(network, namespace, sizing_queues(size.vcpus), err);
	}
	/* For good: it is a child's, see vm_start(). */
	if (rootless_join(container->pid, namespace, err) < 0)
		return -1;
	return network_attach(network, -1, 1, err);
}

static int start_attached(const struct container *container, struct network *network,
			  struct err *err)
{
	const struct control_request request = { .type = CONTROL_START };
	uint32_t patience = control_guest_patience(start_patience(container));
	_cleanup_fd_ int socket = control_connect(container->state_fd, patience, err);

	if (socket < 0)
		return -1;
	if (start_has_network(container->config) && find_network(container, network, err) < 0)
		return -1;
	if (network->message && network->message->n_interfaces) {
		if (send_network(socket, network, err) < 0)
			return -1;
	} else if (control_send(socket, &request, NULL, 0, err) < 0) {
		return -1;
	}
	network_release(network); /* they are the monitor's alone */
	return control_reply(socket, err);
}

static int start(const void *data, struct err *err)
{
	const struct container *container = data;
	struct network network;
	int r;

	network_init(&network);
	r = start_attached(container, &network, err);
	network_release(&network);
	return r;
}

/*
 * An ordinary user has rights over the network namespace only in the user namespace that it belongs
 * to, and there is no way back from that, nor for root of a user namespace: so a child goes.
 */
int vm_start(struct container *container, struct err *err)
{
	return rootless_one_way() ? apart_run("start the container", start, container, err)
				  : start(container, err);
}
