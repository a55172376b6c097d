/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Making netlink messages, and reading the answers to them. */
#include "net/netlink.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ANSWER_MAX 65536 /* a device with many virtual functions has much to say */

static _Alignas(NLMSG_ALIGNTO) char answer[ANSWER_MAX];

int netlink_open(int protocol, struct err *err)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	return fd < 0 ? err_set(err, errno, "open a netlink socket") : fd;
}

static struct nlmsghdr *message_of(struct netlink_request *request)
{
	return (struct nlmsghdr *)request->bytes;
}

void netlink_begin(struct netlink_request *request, int type, int flags, const void *header,
		   size_t size)
{
	struct nlmsghdr *message = message_of(request);

	memset(request, 0, sizeof(*request));
	message->nlmsg_type = (uint16_t)type;
	message->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	message->nlmsg_len = (uint32_t)NLMSG_LENGTH(size);
	memcpy(NLMSG_DATA(message), header, size);
}

void netlink_add(struct netlink_request *request, int type, const void *data, size_t size)
{
	struct nlmsghdr *message = message_of(request);
	size_t at = NLMSG_ALIGN(message->nlmsg_len);
	struct nlattr *attribute = (struct nlattr *)(request->bytes + at);

	assert(at + NLA_HDRLEN + NLA_ALIGN(size) <= sizeof(request->bytes));
	attribute->nla_type = (uint16_t)type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
	if (size)
		memcpy((char *)attribute + NLA_HDRLEN, data, size);
	message->nlmsg_len = (uint32_t)(at + NLA_HDRLEN + NLA_ALIGN(size));
}

void netlink_add_string(struct netlink_request *request, int type, const char *text)
{
	netlink_add(request, type, text, strlen(text) + 1);
}

void netlink_add_u32(struct netlink_request *request, int type, uint32_t value)
{
	netlink_add(request, type, &value, sizeof(value));
}

size_t netlink_nest(struct netlink_request *request, int type)
{
	size_t at = NLMSG_ALIGN(message_of(request)->nlmsg_len);

	netlink_add(request, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void netlink_nest_end(struct netlink_request *request, size_t nest)
{
	struct nlattr *attribute = (struct nlattr *)(request->bytes + nest);

	attribute->nla_len = (uint16_t)(message_of(request)->nlmsg_len - nest);
}

/* Returns 1 where more is to come, 0 at the end, -1 with errno set. last: whose answer is it. */
static int take_all(const char *bytes, size_t size, uint32_t last,
		    void (*take)(const struct nlmsghdr *message, void *context), void *context)
{
	const struct nlmsghdr *message = (const struct nlmsghdr *)bytes;

	for (; NLMSG_OK(message, size); message = NLMSG_NEXT(message, size)) {
		const struct nlmsgerr *error = NLMSG_DATA(message);

		if (message->nlmsg_type == NLMSG_DONE)
			return 0;
		if (message->nlmsg_type == NLMSG_ERROR && error->error) {
			errno = -error->error;
			return -1;
		}
		if (message->nlmsg_type == NLMSG_ERROR && message->nlmsg_seq == last)
			return 0;
		if (take && message->nlmsg_type != NLMSG_ERROR)
			take(message, context);
	}
	return 1;
}

/*
 * One message of the kernel's, which alone has port 0: a process that may administer the namespace
 * can send to this socket, too. Returns its size, or -1 with errno set.
 */
static ssize_t receive_one(int fd)
{
	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t size = sizeof(from);
		ssize_t n =
			recvfrom(fd, answer, sizeof(answer), 0, (struct sockaddr *)&from, &size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || from.nl_pid == 0)
			return n > 0 ? n : -1;
	}
}

static int receive(int fd, uint32_t last,
		   void (*take)(const struct nlmsghdr *message, void *context), void *context)
{
	int r;

	do {
		ssize_t n = receive_one(fd);

		if (n < 0)
			return -1;
		r = take_all(answer, (size_t)n, last, take, context);
	} while (r > 0);
	return r;
}

int netlink_ask(int fd, struct netlink_request *request,
		void (*take)(const struct nlmsghdr *message, void *context), void *context)
{
	struct nlmsghdr *message = message_of(request);

	/* An acknowledgement ends the answer, as DONE does a dump's. */
	if ((message->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP)
		message->nlmsg_flags |= NLM_F_ACK;
	if (send(fd, request, message->nlmsg_len, 0) < 0)
		return -1;
	return receive(fd, 0, take, context);
}

int netlink_ask_all(int fd, struct netlink_request *requests, size_t count)
{
	_cleanup_free_ struct iovec *parts = xcalloc(count, sizeof(*parts));
	struct msghdr header = { .msg_iov = parts, .msg_iovlen = count };

	for (size_t i = 0; i < count; i++) {
		struct nlmsghdr *message = message_of(&requests[i]);

		message->nlmsg_seq = (uint32_t)i;
		parts[i] = (struct iovec){ .iov_base = message,
					   .iov_len = NLMSG_ALIGN(message->nlmsg_len) };
	}
	message_of(&requests[count - 2])->nlmsg_flags |= NLM_F_ACK;
	if (sendmsg(fd, &header, 0) < 0)
		return -1;
	return receive(fd, (uint32_t)count - 2, NULL, NULL);
}

static const struct nlattr *find(const char *bytes, size_t size, int type)
{
	size_t at = 0;

	while (at + NLA_HDRLEN <= size) {
		const struct nlattr *attribute = (const struct nlattr *)(bytes + at);

		if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > size - at)
			return NULL;
		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		at += NLA_ALIGN(attribute->nla_len);
	}
	return NULL;
}

const struct nlattr *netlink_find(const struct nlmsghdr *message, size_t header, int type)
{
	size_t before = NLMSG_SPACE(header);

	return message->nlmsg_len < before
		       ? NULL
		       : find((const char *)message + before, message->nlmsg_len - before, type);
}

const struct nlattr *netlink_find_in(const struct nlattr *nest, int type)
{
	return find(netlink_data(nest), netlink_size(nest), type);
}

uint32_t netlink_u32(const struct nlmsghdr *message, size_t header, int type)
{
	const struct nlattr *attribute = netlink_find(message, header, type);
	uint32_t value = 0;

	if (attribute && netlink_size(attribute) == sizeof(value))
		memcpy(&value, netlink_data(attribute), sizeof(value));
	return value;
}
