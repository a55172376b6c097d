/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Giving interfaces of the guest what those of the namespace have. */
#include "net/network.h"

#include "net/netlink.h"

#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BYTES_MAX 16u /* of an address */

struct target {
	int link;
	const int *indexes; /* of the interfaces */
	bool no_ipv6[NETWORK_INTERFACES_MAX];
};

/* A field of the message that is to be of 4 or 16 bytes; an empty one is left out. */
static void add_bytes(struct netlink_request *request, int type, const ProtobufCBinaryData *field)
{
	if (field->len && field->len <= BYTES_MAX)
		netlink_add(request, type, field->data, field->len);
}

static unsigned char family_of(const ProtobufCBinaryData *address)
{
	return address->len == 4 ? AF_INET : AF_INET6;
}

static int rename_link(int link, int index, const char *name)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	struct netlink_request request;

	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	netlink_add_string(&request, IFLA_IFNAME, name);
	return netlink_ask(link, &request, NULL, NULL);
}

/* The kernel's names are the wanted ones of others, perhaps: out of the way with them. */
static int free_names(const struct target *target, size_t count, struct err *err)
{
	char name[IFNAMSIZ];

	for (size_t i = 0; i < count && count > 1; i++) {
		snprintf(name, sizeof(name), "moat.%u", (unsigned int)i);
		if (rename_link(target->link, target->indexes[i], name) < 0)
			return err_set(err, errno, "name a network interface %s", name);
	}
	return 0;
}

static int set_up(const Moat__Agent__Interface *interface, int link, int index)
{
	unsigned int flags = IFF_UP | (interface->no_arp ? IFF_NOARP : 0);
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	struct netlink_request request;

	if (network_be_silent(link, index) < 0)
		return -1;
	if (rename_link(link, index, interface->name) < 0)
		return -1;
	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	netlink_add_u32(&request, IFLA_MTU, interface->mtu);
	if (netlink_ask(link, &request, NULL, NULL) < 0)
		return -1;
	info.ifi_flags = flags;
	info.ifi_change = IFF_UP | IFF_NOARP;
	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	return netlink_ask(link, &request, NULL, NULL);
}

/* It was found to be nobody else's by the namespace's kernel, and its routes are in the message. */
static int add_address(const Moat__Agent__Address *address, int link, int index)
{
	unsigned char family = family_of(&address->local);
	struct ifaddrmsg info = { .ifa_family = family,
				  .ifa_prefixlen = (unsigned char)address->prefix,
				  .ifa_scope = (unsigned char)address->scope,
				  .ifa_index = (unsigned int)index };
	struct ifa_cacheinfo lifetimes = { .ifa_prefered = address->preferred,
					   .ifa_valid = address->valid };
	struct netlink_request request;

	netlink_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &info, sizeof(info));
	netlink_add_u32(&request, IFA_FLAGS,
			IFA_F_NOPREFIXROUTE | (family == AF_INET6 ? IFA_F_NODAD : 0));
	add_bytes(&request, IFA_LOCAL, &address->local);
	add_bytes(&request, IFA_ADDRESS, address->peer.len ? &address->peer : &address->local);
	add_bytes(&request, IFA_BROADCAST, &address->broadcast);
	netlink_add(&request, IFA_CACHEINFO, &lifetimes, sizeof(lifetimes));
	return netlink_ask(link, &request, NULL, NULL);
}

static int add_neighbour(const Moat__Agent__Neighbour *neighbour, int link, int index)
{
	struct ndmsg info = { .ndm_family = family_of(&neighbour->address),
			      .ndm_ifindex = index,
			      .ndm_state = NUD_PERMANENT };
	struct netlink_request request;

	netlink_begin(&request, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &info, sizeof(info));
	add_bytes(&request, NDA_DST, &neighbour->address);
	add_bytes(&request, NDA_LLADDR, &neighbour->mac);
	return netlink_ask(link, &request, NULL, NULL);
}

static void add_gateway(struct netlink_request *request, const Moat__Agent__Route *route)
{
	struct {
		uint16_t family;
		uint8_t bytes[BYTES_MAX];
	} via = { .family = AF_INET6 };

	if (route->family != AF_INET || route->gateway.len != sizeof(via.bytes)) {
		add_bytes(request, RTA_GATEWAY, &route->gateway);
		return;
	}
	memcpy(via.bytes, route->gateway.data, sizeof(via.bytes));
	netlink_add(request, RTA_VIA, &via, sizeof(via));
}

static int add_route(const Moat__Agent__Route *route, int link, int index)
{
	struct rtmsg info = { .rtm_family = (unsigned char)route->family,
			      .rtm_dst_len = (unsigned char)route->prefix,
			      .rtm_table = RT_TABLE_MAIN,
			      .rtm_protocol = (unsigned char)route->protocol,
			      .rtm_scope = (unsigned char)route->scope,
			      .rtm_type = (unsigned char)route->type,
			      .rtm_flags = route->on_link ? RTNH_F_ONLINK : 0 };
	uint8_t preference = (uint8_t)route->preference;
	struct netlink_request request;
	size_t metrics;

	netlink_begin(&request, RTM_NEWROUTE, NLM_F_CREATE, &info, sizeof(info));
	add_bytes(&request, RTA_DST, &route->destination);
	add_gateway(&request, route);
	add_bytes(&request, RTA_PREFSRC, &route->source);
	if (index)
		netlink_add_u32(&request, RTA_OIF, (uint32_t)index);
	if (route->metric)
		netlink_add_u32(&request, RTA_PRIORITY, route->metric);
	if (route->mtu) {
		metrics = netlink_nest(&request, RTA_METRICS);
		netlink_add_u32(&request, RTAX_MTU, route->mtu);
		netlink_nest_end(&request, metrics);
	}
	if (route->family == AF_INET6)
		netlink_add(&request, RTA_PREF, &preference, sizeof(preference));
	/* The kernel may have made it itself, for an address. */
	return netlink_ask(link, &request, NULL, NULL) < 0 && errno != EEXIST ? -1 : 0;
}

/* Gateways are reached over the routes that have none, so those come first. */
static int add_routes(const Moat__Agent__Network *network, const struct target *target,
		      struct err *err)
{
	for (size_t i = 0; i < 2 * network->n_routes; i++) {
		const Moat__Agent__Route *route = network->routes[i % network->n_routes];
		uint32_t interface = route->interface;

		if ((route->gateway.len > 0) != (i >= network->n_routes))
			continue;
		if (interface > network->n_interfaces)
			return err_set(err, EINVAL, "a route has interface %u", interface);
		if (interface && route->family == AF_INET6 && target->no_ipv6[interface - 1])
			continue;
		if (add_route(route, target->link, interface ? target->indexes[interface - 1] : 0) <
		    0)
			return err_set(err, errno, "add route %zu of the network",
				       i % network->n_routes);
	}
	return 0;
}

/*
 * A sysctl of the config may have switched IPv6 off: then the interface gets none, as on the host.
 */
static int add_addresses(const Moat__Agent__Interface *interface, struct target *target,
			 size_t number, struct err *err)
{
	for (size_t i = 0; i < interface->n_addresses; i++) {
		const Moat__Agent__Address *address = interface->addresses[i];

		if (add_address(address, target->link, target->indexes[number]) == 0)
			continue;
		if (family_of(&address->local) != AF_INET6 || errno != EACCES)
			return err_set(err, errno, "give the network interface %s address %zu",
				       interface->name, i);
		target->no_ipv6[number] = true;
	}
	return 0;
}

static int apply_interface(const Moat__Agent__Interface *interface, struct target *target,
			   size_t number, struct err *err)
{
	int link = target->link, index = target->indexes[number];

	if (!*interface->name || strlen(interface->name) >= IFNAMSIZ)
		return err_set(err, EINVAL, "give a network interface a name of %zu bytes",
			       strlen(interface->name));
	if (set_up(interface, link, index) < 0)
		return err_set(err, errno, "bring the network interface %s up", interface->name);
	if (add_addresses(interface, target, number, err) < 0)
		return -1;
	for (size_t i = 0; i < interface->n_neighbours; i++)
		if (add_neighbour(interface->neighbours[i], link, index) < 0)
			return err_set(err, errno, "give the network interface %s neighbour %zu",
				       interface->name, i);
	return 0;
}

int network_apply(const Moat__Agent__Network *network, const int *indexes, int link,
		  struct err *err)
{
	struct target target = { .link = link, .indexes = indexes };

	if (network->n_interfaces > NETWORK_INTERFACES_MAX)
		return err_set(err, EINVAL, "make %zu network interfaces", network->n_interfaces);
	if (free_names(&target, network->n_interfaces, err) < 0)
		return -1;
	for (size_t i = 0; i < network->n_interfaces; i++)
		if (apply_interface(network->interfaces[i], &target, i, err) < 0)
			return -1;
	return add_routes(network, &target, err);
}
