/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers of nftables are big-endian, but for values that rules hold: those are as they are. */
#include "net/nft.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdbool.h>

#define IPV4_CHECKSUM_AT 10u

static void add_be32(struct netlink_request *request, int type, uint32_t value)
{
	netlink_add_u32(request, type, htonl(value));
}

static struct netlink_request *add(struct nft_batch *batch, int family, int type, int flags)
{
	struct netlink_request *request = &batch->requests[batch->count++];
	bool own = type >= NFNL_MSG_BATCH_BEGIN && type <= NFNL_MSG_BATCH_END;
	struct nfgenmsg header = { .nfgen_family = (uint8_t)family,
				   .version = NFNETLINK_V0,
				   .res_id = own ? htons(NFNL_SUBSYS_NFTABLES) : 0 };

	netlink_begin(request, own ? type : NFNL_SUBSYS_NFTABLES << 8 | type, flags, &header,
		      sizeof(header));
	return request;
}

void nft_begin(struct nft_batch *batch)
{
	add(batch, AF_UNSPEC, NFNL_MSG_BATCH_BEGIN, 0);
}

void nft_end(struct nft_batch *batch)
{
	add(batch, AF_UNSPEC, NFNL_MSG_BATCH_END, 0);
}

void nft_table(struct nft_batch *batch, int family, const char *name)
{
	struct netlink_request *request =
		add(batch, family, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);

	netlink_add_string(request, NFTA_TABLE_NAME, name);
	add_be32(request, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
}

void nft_chain(struct nft_batch *batch, const struct nft_chain *chain)
{
	struct netlink_request *request =
		add(batch, chain->family, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	size_t hook;

	netlink_add_string(request, NFTA_CHAIN_TABLE, chain->table);
	netlink_add_string(request, NFTA_CHAIN_NAME, chain->name);
	netlink_add_string(request, NFTA_CHAIN_TYPE, chain->type);
	add_be32(request, NFTA_CHAIN_POLICY, chain->policy);
	hook = netlink_nest(request, NFTA_CHAIN_HOOK);
	add_be32(request, NFTA_HOOK_HOOKNUM, chain->hook);
	add_be32(request, NFTA_HOOK_PRIORITY, (uint32_t)chain->priority);
	if (chain->device)
		netlink_add_string(request, NFTA_HOOK_DEV, chain->device);
	netlink_nest_end(request, hook);
}

struct nft_rule nft_rule(struct nft_batch *batch, const struct nft_chain *chain, int flags)
{
	struct nft_rule rule = { .request = add(batch, chain->family, NFT_MSG_NEWRULE,
						NLM_F_CREATE | flags) };

	netlink_add_string(rule.request, NFTA_RULE_TABLE, chain->table);
	netlink_add_string(rule.request, NFTA_RULE_CHAIN, chain->name);
	rule.list = netlink_nest(rule.request, NFTA_RULE_EXPRESSIONS);
	return rule;
}

void nft_rule_end(struct nft_rule *rule)
{
	netlink_nest_end(rule->request, rule->list);
}

/* An expression's two nests. */
struct expression {
	size_t element, data;
};

static struct expression begin(struct nft_rule *rule, const char *name)
{
	struct expression expression;

	expression.element = netlink_nest(rule->request, NFTA_LIST_ELEM);
	netlink_add_string(rule->request, NFTA_EXPR_NAME, name);
	expression.data = netlink_nest(rule->request, NFTA_EXPR_DATA);
	return expression;
}

static void end(struct nft_rule *rule, const struct expression *expression)
{
	netlink_nest_end(rule->request, expression->data);
	netlink_nest_end(rule->request, expression->element);
}

static void add_data(struct nft_rule *rule, int type, const void *data, size_t size)
{
	size_t value = netlink_nest(rule->request, type);

	netlink_add(rule->request, NFTA_DATA_VALUE, data, size);
	netlink_nest_end(rule->request, value);
}

void nft_value(struct nft_rule *rule, const void *data, size_t size)
{
	struct expression expression = begin(rule, "immediate");

	add_be32(rule->request, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	add_data(rule, NFTA_IMMEDIATE_DATA, data, size);
	end(rule, &expression);
}

void nft_verdict(struct nft_rule *rule, uint32_t verdict)
{
	struct expression expression = begin(rule, "immediate");
	size_t data, value;

	add_be32(rule->request, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = netlink_nest(rule->request, NFTA_IMMEDIATE_DATA);
	value = netlink_nest(rule->request, NFTA_DATA_VERDICT);
	add_be32(rule->request, NFTA_VERDICT_CODE, verdict);
	netlink_nest_end(rule->request, value);
	netlink_nest_end(rule->request, data);
	end(rule, &expression);
}

/* An expression between the register, which attribute `reg` names, and what a key stands for. */
static void keyed(struct nft_rule *rule, const char *name, uint16_t reg, uint16_t attribute,
		  uint32_t key)
{
	struct expression expression = begin(rule, name);

	add_be32(rule->request, reg, NFT_REG_1);
	add_be32(rule->request, attribute, key);
	end(rule, &expression);
}

void nft_meta(struct nft_rule *rule, uint32_t key)
{
	keyed(rule, "meta", NFTA_META_DREG, NFTA_META_KEY, key);
}

void nft_write_meta(struct nft_rule *rule, uint32_t key)
{
	keyed(rule, "meta", NFTA_META_SREG, NFTA_META_KEY, key);
}

void nft_state(struct nft_rule *rule)
{
	keyed(rule, "ct", NFTA_CT_DREG, NFTA_CT_KEY, NFT_CT_STATE);
}

static void add_part(struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t size)
{
	add_be32(rule->request, NFTA_PAYLOAD_BASE, base);
	add_be32(rule->request, NFTA_PAYLOAD_OFFSET, offset);
	add_be32(rule->request, NFTA_PAYLOAD_LEN, size);
}

void nft_payload(struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t size)
{
	struct expression expression = begin(rule, "payload");

	add_be32(rule->request, NFTA_PAYLOAD_DREG, NFT_REG_1);
	add_part(rule, base, offset, size);
	end(rule, &expression);
}

void nft_write(struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t size)
{
	struct expression expression = begin(rule, "payload");

	add_be32(rule->request, NFTA_PAYLOAD_SREG, NFT_REG_1);
	add_part(rule, base, offset, size);
	if (base == NFT_PAYLOAD_NETWORK_HEADER) {
		add_be32(rule->request, NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
		add_be32(rule->request, NFTA_PAYLOAD_CSUM_OFFSET, IPV4_CHECKSUM_AT);
		add_be32(rule->request, NFTA_PAYLOAD_CSUM_FLAGS, NFT_PAYLOAD_L4CSUM_PSEUDOHDR);
	}
	end(rule, &expression);
}

void nft_compare(struct nft_rule *rule, uint32_t how, const void *data, size_t size)
{
	struct expression expression = begin(rule, "cmp");

	add_be32(rule->request, NFTA_CMP_SREG, NFT_REG_1);
	add_be32(rule->request, NFTA_CMP_OP, how);
	add_data(rule, NFTA_CMP_DATA, data, size);
	end(rule, &expression);
}

void nft_forward(struct nft_rule *rule)
{
	struct expression expression = begin(rule, "fwd");

	add_be32(rule->request, NFTA_FWD_SREG_DEV, NFT_REG_1);
	end(rule, &expression);
}

void nft_translate(struct nft_rule *rule, uint32_t type)
{
	struct expression expression = begin(rule, "nat");

	add_be32(rule->request, NFTA_NAT_TYPE, type);
	add_be32(rule->request, NFTA_NAT_FAMILY, NFPROTO_IPV4);
	add_be32(rule->request, NFTA_NAT_REG_ADDR_MIN, NFT_REG_1);
	end(rule, &expression);
}
