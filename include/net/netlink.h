/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests to the kernel over netlink(7), one at a time or as a batch: rtnetlink for interfaces,
 * addresses and routes, nfnetlink for nftables. The guest's agent, which is static, uses it too.
 */
#pragma once

#include "base/err.h"

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_REQUEST_MAX 1024

struct netlink_request {
	_Alignas(NLMSG_ALIGNTO) char bytes[NETLINK_REQUEST_MAX];
};

/*
 * netlink_open() - a socket in the caller's network namespace.
 * @protocol: NETLINK_ROUTE or NETLINK_NETFILTER.
 *
 * Returns a descriptor, or -1 with err set.
 */
int netlink_open(int protocol, struct err *err);

/* netlink_begin() - a request with the header that belongs to its type (struct ifinfomsg, ...). */
void netlink_begin(struct netlink_request *request, int type, int flags, const void *header,
		   size_t size);

/* netlink_add() - a further attribute. They must all fit into the request. */
void netlink_add(struct netlink_request *request, int type, const void *data, size_t size);
void netlink_add_string(struct netlink_request *request, int type, const char *text);
void netlink_add_u32(struct netlink_request *request, int type, uint32_t value);

/*
 * netlink_nest() - an attribute that the following ones are in, up to netlink_nest_end() with what
 * this returns.
 */
size_t netlink_nest(struct netlink_request *request, int type);
void netlink_nest_end(struct netlink_request *request, size_t nest);

/*
 * netlink_ask() - send the request and hand each message of the answer to take; NULL: drop them.
 * Returns 0, or -1 with errno set to what the kernel says.
 */
int netlink_ask(int fd, struct netlink_request *request,
		void (*take)(const struct nlmsghdr *message, void *context), void *context);

/*
 * netlink_ask_all() - send requests as one, as batches of nfnetlink are. The last but one has to
 * be the last that the kernel answers (behind it is the batch's end).
 * Returns 0, or -1 with errno set to the first refusal.
 */
int netlink_ask_all(int fd, struct netlink_request *requests, size_t count);

/* netlink_find() - an attribute of a message, after the header of that size; NULL. */
const struct nlattr *netlink_find(const struct nlmsghdr *message, size_t header, int type);
/* netlink_find_in() - one of those that an attribute is made of; NULL. */
const struct nlattr *netlink_find_in(const struct nlattr *nest, int type);

static inline const void *netlink_data(const struct nlattr *attribute)
{
	return (const char *)attribute + NLA_HDRLEN;
}

static inline size_t netlink_size(const struct nlattr *attribute)
{
	return attribute->nla_len - (size_t)NLA_HDRLEN;
}

/* netlink_u32() - an attribute's value; 0 where it is not there or no number. */
uint32_t netlink_u32(const struct nlmsghdr *message, size_t header, int type);
