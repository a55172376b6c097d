/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to the kernel's routing socket. */
#include "sandbox/rtnetlink.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MAX 65536 /* a device with many virtual functions has much to say */

int rtnetlink_open(struct err *err)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? err_set(err, errno, "open a routing socket") : fd;
}

void rtnetlink_begin(struct rtnetlink_request *request, int type, int flags, const void *header,
		     size_t size)
{
	struct nlmsghdr *message = (struct nlmsghdr *)request->bytes;

	memset(request, 0, sizeof(*request));
	message->nlmsg_type = (uint16_t)type;
	message->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	message->nlmsg_len = (uint32_t)NLMSG_LENGTH(size);
	memcpy(NLMSG_DATA(message), header, size);
}

void rtnetlink_add(struct rtnetlink_request *request, int type, const void *data, size_t size)
{
	struct nlmsghdr *message = (struct nlmsghdr *)request->bytes;
	size_t at = NLMSG_ALIGN(message->nlmsg_len);
	struct rtattr *attribute = (struct rtattr *)(request->bytes + at);

	assert(at + RTA_SPACE(size) <= sizeof(request->bytes));
	attribute->rta_type = (unsigned short)type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(size);
	memcpy(RTA_DATA(attribute), data, size);
	message->nlmsg_len = (uint32_t)(at + RTA_SPACE(size));
}

/* Returns 1 where more is to come, 0 at the end, -1 with errno set. */
static int take_all(const char *bytes, size_t size,
		    void (*take)(const struct nlmsghdr *message, void *context), void *context)
{
	const struct nlmsghdr *message = (const struct nlmsghdr *)bytes;

	for (; NLMSG_OK(message, size); message = NLMSG_NEXT(message, size)) {
		const struct nlmsgerr *error = NLMSG_DATA(message);

		if (message->nlmsg_type == NLMSG_DONE)
			return 0;
		if (message->nlmsg_type == NLMSG_ERROR) {
			errno = -error->error;
			return error->error ? -1 : 0;
		}
		if (take)
			take(message, context);
	}
	return 1;
}

int rtnetlink_ask(int fd, struct rtnetlink_request *request,
		  void (*take)(const struct nlmsghdr *message, void *context), void *context)
{
	static _Alignas(NLMSG_ALIGNTO) char answer[ANSWER_MAX];
	struct nlmsghdr *message = (struct nlmsghdr *)request->bytes;
	int r;

	if ((message->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP)
		message->nlmsg_flags |=
			NLM_F_ACK; /* which ends the answer, as DONE does a dump's */
	if (send(fd, request, message->nlmsg_len, 0) < 0)
		return -1;
	do {
		ssize_t n = recv(fd, answer, sizeof(answer), 0);

		if (n <= 0)
			return -1;
		r = take_all(answer, (size_t)n, take, context);
	} while (r > 0);
	return r;
}

const struct rtattr *rtnetlink_find(const struct nlmsghdr *message, size_t header, int type)
{
	size_t skip = NLMSG_SPACE(header);
	const struct rtattr *attribute = (const struct rtattr *)((const char *)message + skip);
	int left; /* signed: the last attribute's padding may be missing */

	if (message->nlmsg_len < skip)
		return NULL;
	left = (int)(message->nlmsg_len - skip);
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == type)
			return attribute;
	return NULL;
}
