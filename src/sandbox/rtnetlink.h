/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to the kernel's routing socket (rtnetlink(7)), one at a time. */
#pragma once

#include "base/err.h"

#include <linux/rtnetlink.h>
#include <stddef.h>

#define RTNETLINK_REQUEST_MAX 512

struct rtnetlink_request {
	_Alignas(NLMSG_ALIGNTO) char bytes[RTNETLINK_REQUEST_MAX];
};

/* rtnetlink_open() - a socket in the caller's network namespace. A descriptor, or -1. */
int rtnetlink_open(struct err *err);

/* rtnetlink_begin() - a request with the header that belongs to its type (struct ifinfomsg, ...).
 */
void rtnetlink_begin(struct rtnetlink_request *request, int type, int flags, const void *header,
		     size_t size);

/* rtnetlink_add() - a further attribute. They must all fit into the request. */
void rtnetlink_add(struct rtnetlink_request *request, int type, const void *data, size_t size);

/*
 * rtnetlink_ask() - send the request and hand each message of the answer to take; NULL: drop them.
 * Returns 0, or -1 with errno set to what the kernel says.
 */
int rtnetlink_ask(int fd, struct rtnetlink_request *request,
		  void (*take)(const struct nlmsghdr *message, void *context), void *context);

/* rtnetlink_find() - an attribute of a message, after the header of that size; NULL. */
const struct rtattr *rtnetlink_find(const struct nlmsghdr *message, size_t header, int type);
