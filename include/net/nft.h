/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Batches for nftables: tables, chains, and rules as lists of expressions. A rule's values go
 * through one register, which an expression fills and the next one takes.
 */
#pragma once

#include "base/err.h"
#include "net/netlink.h"

#include <stdint.h>

struct nft_batch {
	struct netlink_request *requests; /* room for all, the caller's */
	size_t count;
};

/* nft_begin(), nft_end() - the first and the last request of a batch. */
void nft_begin(struct nft_batch *batch);
void nft_end(struct nft_batch *batch);

/* nft_table() - a new table that belongs to the socket: nobody else's, and gone with it. */
void nft_table(struct nft_batch *batch, int family, const char *name);

struct nft_chain {
	int family;
	const char *table, *name, *type;
	uint32_t hook;
	int32_t priority;
	const char *device; /* of family netdev; NULL: none */
	uint32_t policy;    /* NF_ACCEPT, NF_DROP */
};

void nft_chain(struct nft_batch *batch, const struct nft_chain *chain);

struct nft_rule {
	struct netlink_request *request;
	size_t list;
};

/*
 * nft_rule() - begin a rule, the chain's last (NLM_F_APPEND in flags) or first; to nft_rule_end().
 */
struct nft_rule nft_rule(struct nft_batch *batch, const struct nft_chain *chain, int flags);
void nft_rule_end(struct nft_rule *rule);

/* nft_value() - a constant into the register. */
void nft_value(struct nft_rule *rule, const void *data, size_t size);
/* nft_meta(), nft_state() - a property (enum nft_meta_keys), the connection's state into it. */
void nft_meta(struct nft_rule *rule, uint32_t key);
void nft_state(struct nft_rule *rule);
/* nft_payload() - a part of the packet into it. @base: enum nft_payload_bases */
void nft_payload(struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t size);
/* nft_compare() - go on where the register has this. @how: enum nft_cmp_ops */
void nft_compare(struct nft_rule *rule, uint32_t how, const void *data, size_t size);
/* nft_write() - the register into the packet; of an IPv4 header, the checksums follow. */
void nft_write(struct nft_rule *rule, uint32_t base, uint32_t offset, uint32_t size);
void nft_write_meta(struct nft_rule *rule, uint32_t key);
/* nft_forward() - out of the interface whose index is in the register. */
void nft_forward(struct nft_rule *rule);
/* nft_translate() - another address, the register's. @type: NFT_NAT_SNAT, NFT_NAT_DNAT */
void nft_translate(struct nft_rule *rule, uint32_t type);
void nft_verdict(struct nft_rule *rule, uint32_t verdict);
