/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table that forwards frames between a namespace's interfaces and the taps: for each interface
 * a chain at its ingress with one rule, "fwd to the other one". A frame is taken there before the
 * kernel's own protocols look at it; the chain's policy is to drop, so that none reaches them even
 * where the other interface is gone.
 *
 * The table belongs to the socket that made it (NFT_TABLE_F_OWNER, Linux 5.12): nobody else can
 * change it, and whatever ends the socket's last holder ends the table.
 */
#include "net/network.h"

#include "base/fd.h"
#include "net/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>

#define PRIORITY 0
/* Batch begin and end, the table; a chain and a rule each way for every pair. */
#define REQUESTS_MAX (3 + 4 * NETWORK_INTERFACES_MAX)

struct batch {
	struct netlink_request *requests;
	size_t count;
};

/* Numbers of nftables are big-endian, but for values that rules hold. */
static void add_be32(struct netlink_request *request, int type, uint32_t value)
{
	netlink_add_u32(request, type, htonl(value));
}

static struct netlink_request *begin(struct batch *batch, int type, int flags)
{
	struct netlink_request *request = &batch->requests[batch->count++];
	bool own = type >= NFNL_MSG_BATCH_BEGIN && type <= NFNL_MSG_BATCH_END;
	struct nfgenmsg header = { .nfgen_family = own ? AF_UNSPEC : NFPROTO_NETDEV,
				   .version = NFNETLINK_V0,
				   .res_id = own ? htons(NFNL_SUBSYS_NFTABLES) : 0 };

	netlink_begin(request, own ? type : NFNL_SUBSYS_NFTABLES << 8 | type, flags, &header,
		      sizeof(header));
	return request;
}

static void add_table(struct batch *batch)
{
	struct netlink_request *request = begin(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);

	netlink_add_string(request, NFTA_TABLE_NAME, FORWARD_TABLE);
	add_be32(request, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
}

static void add_chain(struct batch *batch, const char *name, const char *device)
{
	struct netlink_request *request = begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	size_t hook;

	netlink_add_string(request, NFTA_CHAIN_TABLE, FORWARD_TABLE);
	netlink_add_string(request, NFTA_CHAIN_NAME, name);
	netlink_add_string(request, NFTA_CHAIN_TYPE, "filter");
	add_be32(request, NFTA_CHAIN_POLICY, NF_DROP);
	hook = netlink_nest(request, NFTA_CHAIN_HOOK);
	add_be32(request, NFTA_HOOK_HOOKNUM, NF_NETDEV_INGRESS);
	add_be32(request, NFTA_HOOK_PRIORITY, PRIORITY);
	netlink_add_string(request, NFTA_HOOK_DEV, device);
	netlink_nest_end(request, hook);
}

/* "fwd to": the interface's index is put into a register, from which the expression takes it. */
static void add_rule(struct batch *batch, const char *chain, int to)
{
	struct netlink_request *request =
		begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	size_t list, element, data, value;

	netlink_add_string(request, NFTA_RULE_TABLE, FORWARD_TABLE);
	netlink_add_string(request, NFTA_RULE_CHAIN, chain);
	list = netlink_nest(request, NFTA_RULE_EXPRESSIONS);

	element = netlink_nest(request, NFTA_LIST_ELEM);
	netlink_add_string(request, NFTA_EXPR_NAME, "immediate");
	data = netlink_nest(request, NFTA_EXPR_DATA);
	add_be32(request, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value = netlink_nest(request, NFTA_IMMEDIATE_DATA);
	netlink_add_u32(request, NFTA_DATA_VALUE, (uint32_t)to);
	netlink_nest_end(request, value);
	netlink_nest_end(request, data);
	netlink_nest_end(request, element);

	element = netlink_nest(request, NFTA_LIST_ELEM);
	netlink_add_string(request, NFTA_EXPR_NAME, "fwd");
	data = netlink_nest(request, NFTA_EXPR_DATA);
	add_be32(request, NFTA_FWD_SREG_DEV, NFT_REG_1);
	netlink_nest_end(request, data);
	netlink_nest_end(request, element);

	netlink_nest_end(request, list);
}

static void add_pair(struct batch *batch, const struct forward *forward)
{
	char in[32], out[32];

	snprintf(in, sizeof(in), "to-%s", forward->inner_name);
	snprintf(out, sizeof(out), "from-%s", forward->inner_name);
	add_chain(batch, in, forward->outer_name);
	add_rule(batch, in, forward->inner);
	add_chain(batch, out, forward->inner_name);
	add_rule(batch, out, forward->outer);
}

static int explain(int code, struct err *err)
{
	if (code == EEXIST || code == EPERM)
		return err_set(err, EBUSY,
			       "forward the container's network: another microVM has this network "
			       "namespace");
	err_set(err, code, "forward the container's network with nftables");
	if (code == EOPNOTSUPP || code == ENOENT || code == EINVAL)
		return err_hint(err, "that needs Linux 5.12 with nf_tables for family netdev and "
				     "nft_fwd_netdev");
	return -1;
}

int forward_make(const struct forward *forwards, size_t count, struct err *err)
{
	_cleanup_free_ struct netlink_request *requests = xcalloc(REQUESTS_MAX, sizeof(*requests));
	_cleanup_fd_ int fd = netlink_open(NETLINK_NETFILTER, err);
	struct batch batch = { .requests = requests };

	if (fd < 0)
		return -1;
	begin(&batch, NFNL_MSG_BATCH_BEGIN, 0);
	add_table(&batch);
	for (size_t i = 0; i < count; i++)
		add_pair(&batch, &forwards[i]);
	begin(&batch, NFNL_MSG_BATCH_END, 0);
	if (netlink_ask_all(fd, requests, batch.count) < 0)
		return explain(errno, err);
	return fd_steal(&fd);
}
