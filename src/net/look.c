/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a network namespace has, as a message for the guest. */
#include "net/network.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/netlink.h"

#include <linux/if_arp.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define MAC_SIZE 6u

/* What the callbacks of a dump fill in. */
struct look {
	struct network *network;
	bool too_many;
};

/* Appends to a repeated field of a message. */
#define APPEND(array, count, item)                                                                 \
	do {                                                                                       \
		(array) = xrealloc((array), (count) + 1, sizeof(*(array)));                        \
		(array)[(count)++] = (item);                                                       \
	} while (0)

static ProtobufCBinaryData copy_attribute(const struct nlmsghdr *message, size_t header, int type)
{
	const struct nlattr *attribute = netlink_find(message, header, type);
	ProtobufCBinaryData copy = { 0 };

	if (!attribute || !netlink_size(attribute))
		return copy;
	copy.len = netlink_size(attribute);
	copy.data = xcalloc(1, copy.len);
	memcpy(copy.data, netlink_data(attribute), copy.len);
	return copy;
}

/* Whether a message of a dump is of that type, with its whole header. */
static bool is_message(const struct nlmsghdr *message, int type, size_t header)
{
	return message->nlmsg_type == type && message->nlmsg_len >= NLMSG_LENGTH(header);
}

static bool is_ip(unsigned int family)
{
	return family == AF_INET || family == AF_INET6;
}

/* The interface's place in the message, and 1 more; 0: it is none of the guest's. */
static uint32_t place_of(const struct network *network, int index)
{
	for (size_t i = 0; i < network->message->n_interfaces; i++)
		if (network->interfaces[i] == index)
			return (uint32_t)i + 1;
	return 0;
}

static bool is_tap(const struct nlmsghdr *message)
{
	const struct nlattr *info = netlink_find(message, sizeof(struct ifinfomsg), IFLA_LINKINFO);
	const struct nlattr *kind = info ? netlink_find_in(info, IFLA_INFO_KIND) : NULL;

	return kind && netlink_size(kind) == sizeof("tun") &&
	       memcmp(netlink_data(kind), "tun", sizeof("tun")) == 0;
}

static void take_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);
	struct look *look = context;
	struct network *network = look->network;
	const struct nlattr *name;
	Moat__Agent__Interface *interface;

	if (!is_message(message, RTM_NEWLINK, sizeof(*info)) || !(info->ifi_flags & IFF_UP) ||
	    (info->ifi_flags & IFF_LOOPBACK) || netlink_u32(message, sizeof(*info), IFLA_MASTER))
		return;
	name = netlink_find(message, sizeof(*info), IFLA_IFNAME);
	if (!name || info->ifi_type != ARPHRD_ETHER) {
		log_warning("the network interface %s is no Ethernet: the microVM does not get it",
			    name ? (const char *)netlink_data(name) : "?");
		return;
	}
	if (network->message->n_interfaces == NETWORK_INTERFACES_MAX) {
		look->too_many = true;
		return;
	}
	interface = xcalloc(1, sizeof(*interface));
	moat__agent__interface__init(interface);
	interface->name = xstrdup(netlink_data(name));
	interface->mac = copy_attribute(message, sizeof(*info), IFLA_ADDRESS);
	interface->mtu = netlink_u32(message, sizeof(*info), IFLA_MTU);
	interface->no_arp = info->ifi_flags & IFF_NOARP;
	network->interfaces[network->message->n_interfaces] = info->ifi_index;
	network->of_program[network->message->n_interfaces] = is_tap(message);
	APPEND(network->message->interfaces, network->message->n_interfaces, interface);
}

static void take_address(const struct nlmsghdr *message, void *context)
{
	const struct ifaddrmsg *info = NLMSG_DATA(message);
	const struct network *network = ((struct look *)context)->network;
	const struct nlattr *cache;
	struct ifa_cacheinfo lifetimes = { .ifa_prefered = UINT32_MAX, .ifa_valid = UINT32_MAX };
	Moat__Agent__Address *address;
	Moat__Agent__Interface *interface;
	uint32_t place;

	if (!is_message(message, RTM_NEWADDR, sizeof(*info)) || !is_ip(info->ifa_family))
		return;
	place = place_of(network, (int)info->ifa_index);
	if (!place || (netlink_u32(message, sizeof(*info), IFA_FLAGS) & IFA_F_DADFAILED))
		return;
	cache = netlink_find(message, sizeof(*info), IFA_CACHEINFO);
	if (cache && netlink_size(cache) >= sizeof(lifetimes))
		memcpy(&lifetimes, netlink_data(cache), sizeof(lifetimes));
	interface = network->message->interfaces[place - 1];
	address = xcalloc(1, sizeof(*address));
	moat__agent__address__init(address);
	address->local = copy_attribute(message, sizeof(*info), IFA_LOCAL);
	address->peer = copy_attribute(message, sizeof(*info), IFA_ADDRESS);
	if (!address->local.len) { /* IPv6 without a peer */
		address->local = address->peer;
		address->peer = (ProtobufCBinaryData){ 0 };
	}
	address->broadcast = copy_attribute(message, sizeof(*info), IFA_BROADCAST);
	address->prefix = info->ifa_prefixlen;
	address->scope = info->ifa_scope;
	address->preferred = lifetimes.ifa_prefered;
	address->valid = lifetimes.ifa_valid;
	APPEND(interface->addresses, interface->n_addresses, address);
}

static void take_neighbour(const struct nlmsghdr *message, void *context)
{
	const struct ndmsg *info = NLMSG_DATA(message);
	const struct network *network = ((struct look *)context)->network;
	Moat__Agent__Interface *interface;
	Moat__Agent__Neighbour *neighbour;
	uint32_t place;

	if (!is_message(message, RTM_NEWNEIGH, sizeof(*info)) || !is_ip(info->ndm_family) ||
	    !(info->ndm_state & NUD_PERMANENT))
		return;
	place = place_of(network, info->ndm_ifindex);
	if (!place)
		return;
	interface = network->message->interfaces[place - 1];
	neighbour = xcalloc(1, sizeof(*neighbour));
	moat__agent__neighbour__init(neighbour);
	neighbour->address = copy_attribute(message, sizeof(*info), NDA_DST);
	neighbour->mac = copy_attribute(message, sizeof(*info), NDA_LLADDR);
	APPEND(interface->neighbours, interface->n_neighbours, neighbour);
}

/* An IPv4 route's gateway of another family comes with the family in front. */
static ProtobufCBinaryData copy_gateway(const struct nlmsghdr *message)
{
	ProtobufCBinaryData gateway = copy_attribute(message, sizeof(struct rtmsg), RTA_GATEWAY);
	const size_t family = sizeof(((struct rtvia *)0)->rtvia_family);

	if (gateway.len)
		return gateway;
	gateway = copy_attribute(message, sizeof(struct rtmsg), RTA_VIA);
	if (gateway.len <= family) {
		free(gateway.data);
		return (ProtobufCBinaryData){ 0 };
	}
	gateway.len -= family;
	memmove(gateway.data, gateway.data + family, gateway.len);
	return gateway;
}

/* RTAX_MTU of the metrics. */
static uint32_t route_mtu(const struct nlmsghdr *message)
{
	const struct nlattr *metrics = netlink_find(message, sizeof(struct rtmsg), RTA_METRICS);
	size_t size = metrics ? netlink_size(metrics) : 0;
	const char *at = metrics ? netlink_data(metrics) : NULL;
	uint32_t value;

	while (size >= NLA_HDRLEN + sizeof(value)) {
		const struct nlattr *metric = (const struct nlattr *)at;
		size_t length = NLA_ALIGN(metric->nla_len);

		if (metric->nla_type == RTAX_MTU && metric->nla_len == NLA_HDRLEN + sizeof(value)) {
			memcpy(&value, netlink_data(metric), sizeof(value));
			return value;
		}
		if (length < NLA_HDRLEN || length > size)
			break;
		at += length;
		size -= length;
	}
	return 0;
}

/* Those of the main table that somebody has made; what routers advertise the guest hears itself. */
static bool is_route(const struct nlmsghdr *message)
{
	const struct rtmsg *info = NLMSG_DATA(message);

	return is_message(message, RTM_NEWROUTE, sizeof(*info)) && is_ip(info->rtm_family) &&
	       netlink_u32(message, sizeof(*info), RTA_TABLE) == RT_TABLE_MAIN &&
	       info->rtm_protocol != RTPROT_RA && !(info->rtm_flags & RTM_F_CLONED) &&
	       info->rtm_type != RTN_MULTICAST && info->rtm_type != RTN_ANYCAST;
}

static void take_route(const struct nlmsghdr *message, void *context)
{
	const struct rtmsg *info = NLMSG_DATA(message);
	const struct network *network = ((struct look *)context)->network;
	const struct nlattr *preference;
	Moat__Agent__Route *route;
	uint32_t interface;

	if (!is_route(message))
		return;
	interface = place_of(network, (int)netlink_u32(message, sizeof(*info), RTA_OIF));
	/* A blackhole of IPv6 is at the loopback interface. */
	if (!interface && info->rtm_type == RTN_UNICAST) {
		if (netlink_find(message, sizeof(*info), RTA_MULTIPATH))
			log_warning("a route over several interfaces: the microVM does not get it");
		return;
	}
	route = xcalloc(1, sizeof(*route));
	moat__agent__route__init(route);
	route->family = info->rtm_family;
	route->destination = copy_attribute(message, sizeof(*info), RTA_DST);
	route->prefix = info->rtm_dst_len;
	route->gateway = copy_gateway(message);
	route->source = copy_attribute(message, sizeof(*info), RTA_PREFSRC);
	route->interface = interface;
	route->protocol = info->rtm_protocol;
	route->scope = info->rtm_scope;
	route->type = info->rtm_type;
	route->metric = netlink_u32(message, sizeof(*info), RTA_PRIORITY);
	route->on_link = info->rtm_flags & RTNH_F_ONLINK;
	route->mtu = route_mtu(message);
	preference = netlink_find(message, sizeof(*info), RTA_PREF);
	if (preference && netlink_size(preference) == 1)
		route->preference = *(const uint8_t *)netlink_data(preference);
	APPEND(network->message->routes, network->message->n_routes, route);
}

static int dump(int link, int type, const void *header, size_t size,
		void (*take)(const struct nlmsghdr *message, void *context), struct look *look)
{
	struct netlink_request request;

	netlink_begin(&request, type, NLM_F_DUMP, header, size);
	return netlink_ask(link, &request, take, look);
}

static int check_macs(const Moat__Agent__Network *network, struct err *err)
{
	for (size_t i = 0; i < network->n_interfaces; i++)
		if (network->interfaces[i]->mac.len != MAC_SIZE)
			return err_set(err, 0, "the network interface %s has a MAC of %zu bytes",
				       network->interfaces[i]->name,
				       network->interfaces[i]->mac.len);
	return 0;
}

int network_look(struct network *network, int link, struct err *err)
{
	static const struct ifinfomsg any_link;
	static const struct ifaddrmsg any_address;
	static const struct ndmsg any_neighbour;
	static const struct rtmsg any_route;
	struct look look = { .network = network };

	network->message = xcalloc(1, sizeof(*network->message));
	moat__agent__network__init(network->message);
	if (dump(link, RTM_GETLINK, &any_link, sizeof(any_link), take_link, &look) < 0)
		return err_set(err, errno, "list the network interfaces");
	if (look.too_many)
		return err_set(err, 0, "a microVM has at most %u network interfaces",
			       NETWORK_INTERFACES_MAX);
	if (!network->message->n_interfaces)
		return 0;
	if (check_macs(network->message, err) < 0)
		return -1;
	if (dump(link, RTM_GETADDR, &any_address, sizeof(any_address), take_address, &look) < 0)
		return err_set(err, errno, "list the addresses of the network interfaces");
	if (dump(link, RTM_GETNEIGH, &any_neighbour, sizeof(any_neighbour), take_neighbour, &look) <
	    0)
		return err_set(err, errno, "list the neighbours of the network interfaces");
	if (dump(link, RTM_GETROUTE, &any_route, sizeof(any_route), take_route, &look) < 0)
		return err_set(err, errno, "list the routes");
	return 0;
}
