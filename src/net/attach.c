/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a namespace that an engine has prepared to taps that a machine can be given. */
#include "net/network.h"

#include "base/fd.h"
#include "base/log.h"
#include "net/netlink.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>

void network_init(struct network *network)
{
	*network = (struct network){ .table = -1 };
	memset(network->taps, -1, sizeof(network->taps));
}

void network_release(struct network *network)
{
	for (size_t i = 0; i < NETWORK_INTERFACES_MAX; i++)
		for (size_t j = 0; j < NETWORK_PAIRS_MAX; j++)
			fd_replace(&network->taps[i][j], -1);
	fd_replace(&network->table, -1);
	if (network->message)
		moat__agent__network__free_unpacked(steal(network->message), NULL);
}

/* The network works without, so that this is no reason to have none. */
static void let_in(const struct network *network, int link, const struct forward *forwards)
{
	struct err err;

	for (size_t i = 0; i < network->message->n_interfaces; i++) {
		if (!network->of_program[i])
			continue;
		if (local_make(network->table, link, &forwards[i], network->message->interfaces[i],
			       &err) < 0)
			log_warning("connections from the microVM's network namespace, as of "
				    "published ports, do not reach it: %s",
				    err.text);
		return; /* of one: the first */
	}
}

/* In the namespace. */
static int attach(struct network *network, struct err *err)
{
	_cleanup_fd_ int link = netlink_open(NETLINK_ROUTE, err);
	struct forward forwards[NETWORK_INTERFACES_MAX];
	size_t count;

	if (link < 0 || network_look(network, link, err) < 0)
		return -1;
	count = network->message->n_interfaces;
	for (size_t i = 0; i < count; i++)
		if (network->of_program[i]) /* which has one queue for all that comes and goes */
			network->pairs = 1;
	for (size_t i = 0; i < count; i++) {
		struct forward *forward = &forwards[i];

		forward->outer = network->interfaces[i];
		forward->outer_name = network->message->interfaces[i]->name;
		if (tap_open(link, &forward->inner, network->taps[i], network->pairs, err) < 0)
			return -1;
		if (!if_indextoname((unsigned int)forward->inner, forward->inner_name))
			return err_set(err, errno, "find the name of a tap");
	}
	if (!count)
		return 0;
	network->table = forward_make(forwards, count, err);
	if (network->table < 0)
		return -1;
	let_in(network, link, forwards);
	return 0;
}

int network_attach(struct network *network, int namespace, unsigned int pairs, struct err *err)
{
	_cleanup_fd_ int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int r;

	network_init(network);
	network->pairs = pairs;
	if (namespace < 0)
		return attach(network, err);
	if (own < 0)
		return err_set(err, errno, "open our own network namespace");
	if (setns(namespace, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter the container's network namespace");
	r = attach(network, err);
	if (setns(own, CLONE_NEWNET) < 0)
		return err_set(err, errno, "return to our own network namespace");
	return r;
}
