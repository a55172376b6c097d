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
#include "base/mem.h"
#include "net/netlink.h"
#include "net/nft.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>

/* Batch begin and end, the table; a chain and a rule each way for every pair. */
#define REQUESTS_MAX (3 + 4 * NETWORK_INTERFACES_MAX)

static void add_way(struct nft_batch *batch, const char *name, const char *from, int to)
{
	const struct nft_chain chain = { .family = NFPROTO_NETDEV,
					 .table = FORWARD_TABLE,
					 .name = name,
					 .type = "filter",
					 .hook = NF_NETDEV_INGRESS,
					 .device = from,
					 .policy = NF_DROP };
	struct nft_rule rule;

	nft_chain(batch, &chain);
	rule = nft_rule(batch, &chain, NLM_F_APPEND);
	nft_value(&rule, &to, sizeof(to));
	nft_forward(&rule);
	nft_rule_end(&rule);
}

static void add_pair(struct nft_batch *batch, const struct forward *forward)
{
	char name[32];

	snprintf(name, sizeof(name), "to-%s", forward->inner_name);
	add_way(batch, name, forward->outer_name, forward->inner);
	snprintf(name, sizeof(name), FORWARD_FROM "%s", forward->inner_name);
	add_way(batch, name, forward->inner_name, forward->outer);
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
	struct nft_batch batch = { .requests = requests };

	if (fd < 0)
		return -1;
	nft_begin(&batch);
	nft_table(&batch, NFPROTO_NETDEV, FORWARD_TABLE);
	for (size_t i = 0; i < count; i++)
		add_pair(&batch, &forwards[i]);
	nft_end(&batch);
	if (netlink_ask_all(fd, requests, batch.count) < 0)
		return explain(errno, err);
	return fd_steal(&fd);
}
