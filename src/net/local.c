/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections to the guest from its own network namespace. Where a program has the other end of the
 * namespace's interface (slirp4netns, pasta), published ports are a process in the namespace that
 * connects to the container's address or to 127.0.0.1: to the kernel there, which nobody listens
 * to. What goes over its loopback interface is led out of the tap to the guest:
 *
 *	family ip: to NEAR_GUEST, from NEAR_HOST (translated, as connections)
 *	family netdev, on the tap: NEAR_GUEST is the guest's own address, there and back
 *
 * For the guest the client is NEAR_HOST, somewhere behind its gateway. It can begin nothing there.
 */
#include "net/network.h"

#include "base/mem.h"
#include "net/netlink.h"
#include "net/nft.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

#define IPV4_SOURCE	 12u
#define IPV4_DESTINATION 16u
#define IPV4_SIZE	 4u
#define MAC_SIZE	 6u
#define REQUESTS_MAX	 16

static const uint8_t near_host[IPV4_SIZE] = { 169, 254, 77, 1 };
static const uint8_t near_guest[IPV4_SIZE] = { 169, 254, 77, 2 };

static const uint8_t *first_address(const Moat__Agent__Interface *interface)
{
	for (size_t i = 0; i < interface->n_addresses; i++)
		if (interface->addresses[i]->local.len == IPV4_SIZE)
			return interface->addresses[i]->local.data;
	return NULL;
}

static int add_address(int link, int tap)
{
	struct ifaddrmsg info = { .ifa_family = AF_INET,
				  .ifa_prefixlen = 32,
				  .ifa_scope = RT_SCOPE_LINK,
				  .ifa_index = (unsigned int)tap };
	struct netlink_request request;

	netlink_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));
	netlink_add(&request, IFA_LOCAL, near_host, sizeof(near_host));
	netlink_add(&request, IFA_ADDRESS, near_guest, sizeof(near_guest));
	return netlink_ask(link, &request, NULL, NULL);
}

/* What was for 127.0.0.1 may leave by the tap, and come back. */
static int let_loopback_out(int link, int tap)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = tap };
	struct netlink_request request;
	size_t families, family, settings;

	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	families = netlink_nest(&request, IFLA_AF_SPEC);
	family = netlink_nest(&request, AF_INET);
	settings = netlink_nest(&request, IFLA_INET_CONF);
	netlink_add_u32(&request, IPV4_DEVCONF_ROUTE_LOCALNET, 1);
	netlink_nest_end(&request, settings);
	netlink_nest_end(&request, family);
	netlink_nest_end(&request, families);
	return netlink_ask(link, &request, NULL, NULL);
}

static void match(struct nft_rule *rule, uint32_t key, uint32_t value)
{
	nft_meta(rule, key);
	nft_compare(rule, NFT_CMP_EQ, &value, sizeof(value));
}

static void match_ipv4_to(struct nft_rule *rule, const uint8_t *destination)
{
	const uint16_t type = htons(ETH_P_IP);

	nft_meta(rule, NFT_META_PROTOCOL);
	nft_compare(rule, NFT_CMP_EQ, &type, sizeof(type));
	nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, IPV4_DESTINATION, IPV4_SIZE);
	nft_compare(rule, NFT_CMP_EQ, destination, IPV4_SIZE);
}

/* Frames to the guest: its address in the place of NEAR_GUEST, its MAC. */
static void add_to_guest(struct nft_batch *batch, const char *tap, const uint8_t *address,
			 const uint8_t *mac)
{
	const struct nft_chain chain = { .family = NFPROTO_NETDEV,
					 .table = FORWARD_TABLE,
					 .name = "local",
					 .type = "filter",
					 .hook = NF_NETDEV_EGRESS,
					 .device = tap,
					 .policy = NF_ACCEPT };
	struct nft_rule rule;

	nft_chain(batch, &chain);
	rule = nft_rule(batch, &chain, NLM_F_APPEND);
	match_ipv4_to(&rule, near_guest);
	nft_value(&rule, address, IPV4_SIZE);
	nft_write(&rule, NFT_PAYLOAD_NETWORK_HEADER, IPV4_DESTINATION, IPV4_SIZE);
	nft_value(&rule, mac, MAC_SIZE);
	nft_write(&rule, NFT_PAYLOAD_LL_HEADER, 0, MAC_SIZE);
	nft_rule_end(&rule);
}

/* The guest's for NEAR_HOST: before the rule that forwards, whatever MAC they are sent to. */
static void add_from_guest(struct nft_batch *batch, const char *tap)
{
	const uint8_t to_us = PACKET_HOST;
	struct nft_chain chain = { .family = NFPROTO_NETDEV, .table = FORWARD_TABLE };
	struct nft_rule rule;
	char name[32];

	snprintf(name, sizeof(name), FORWARD_FROM "%s", tap);
	chain.name = name;
	rule = nft_rule(batch, &chain, 0);
	match_ipv4_to(&rule, near_host);
	nft_value(&rule, near_guest, sizeof(near_guest));
	nft_write(&rule, NFT_PAYLOAD_NETWORK_HEADER, IPV4_SOURCE, IPV4_SIZE);
	nft_value(&rule, &to_us, sizeof(to_us));
	nft_write_meta(&rule, NFT_META_PKTTYPE);
	nft_verdict(&rule, NF_ACCEPT);
	nft_rule_end(&rule);
}

/* Connections that leave over the loopback interface get the guest for their other end. */
static void add_destination(struct nft_batch *batch)
{
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	const struct nft_chain chain = { .family = NFPROTO_IPV4,
					 .table = FORWARD_TABLE,
					 .name = "to",
					 .type = "nat",
					 .hook = NF_INET_LOCAL_OUT,
					 .priority = NF_IP_PRI_NAT_DST,
					 .policy = NF_ACCEPT };

	nft_chain(batch, &chain);
	for (size_t i = 0; i < sizeof(protocols); i++) {
		struct nft_rule rule = nft_rule(batch, &chain, NLM_F_APPEND);

		match(&rule, NFT_META_OIF, if_nametoindex("lo"));
		nft_meta(&rule, NFT_META_L4PROTO);
		nft_compare(&rule, NFT_CMP_EQ, &protocols[i], sizeof(protocols[i]));
		nft_value(&rule, near_guest, sizeof(near_guest));
		nft_translate(&rule, NFT_NAT_DNAT);
		nft_rule_end(&rule);
	}
}

static void add_source(struct nft_batch *batch, int tap)
{
	const struct nft_chain chain = { .family = NFPROTO_IPV4,
					 .table = FORWARD_TABLE,
					 .name = "from",
					 .type = "nat",
					 .hook = NF_INET_POST_ROUTING,
					 .priority = NF_IP_PRI_NAT_SRC,
					 .policy = NF_ACCEPT };
	struct nft_rule rule;

	nft_chain(batch, &chain);
	rule = nft_rule(batch, &chain, NLM_F_APPEND);
	match(&rule, NFT_META_OIF, (uint32_t)tap);
	nft_value(&rule, near_host, sizeof(near_host));
	nft_translate(&rule, NFT_NAT_SNAT);
	nft_rule_end(&rule);
}

/* Answers are all that comes from the guest. */
static void add_guard(struct nft_batch *batch, int tap)
{
	const uint32_t established = NF_CT_STATE_BIT(IP_CT_ESTABLISHED);
	const struct nft_chain chain = { .family = NFPROTO_IPV4,
					 .table = FORWARD_TABLE,
					 .name = "guard",
					 .type = "filter",
					 .hook = NF_INET_PRE_ROUTING,
					 .priority = NF_IP_PRI_FILTER,
					 .policy = NF_ACCEPT };
	struct nft_rule rule;

	nft_chain(batch, &chain);
	rule = nft_rule(batch, &chain, NLM_F_APPEND);
	match(&rule, NFT_META_IIF, (uint32_t)tap);
	nft_state(&rule);
	nft_compare(&rule, NFT_CMP_NEQ, &established, sizeof(established));
	nft_verdict(&rule, NF_DROP);
	nft_rule_end(&rule);
}

int local_make(int table, int link, const struct forward *forward,
	       const Moat__Agent__Interface *interface, struct err *err)
{
	_cleanup_free_ struct netlink_request *requests = xcalloc(REQUESTS_MAX, sizeof(*requests));
	const uint8_t *address = first_address(interface);
	struct nft_batch batch = { .requests = requests };

	if (!address)
		return 0;
	nft_begin(&batch);
	add_to_guest(&batch, forward->inner_name, address, interface->mac.data);
	add_from_guest(&batch, forward->inner_name);
	nft_table(&batch, NFPROTO_IPV4, FORWARD_TABLE);
	add_guard(&batch, forward->inner);
	add_destination(&batch);
	add_source(&batch, forward->inner);
	nft_end(&batch);
	if (netlink_ask_all(table, requests, batch.count) < 0)
		return err_set(err, errno, "translate addresses with nftables");
	/* Only now: without the guard the guest would reach the namespace's kernel. */
	if (add_address(link, forward->inner) < 0 || let_loopback_out(link, forward->inner) < 0)
		return err_set(err, errno, "give the tap %s an address", forward->inner_name);
	return 0;
}
