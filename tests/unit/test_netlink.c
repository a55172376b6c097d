/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may answer on a netlink socket. */
#include "net/netlink.h"

#include "base/err.h"
#include "base/fd.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

struct found {
	unsigned int count;
	int last;
};

static void take(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);
	struct found *found = context;

	assert_int_equal(message->nlmsg_type, RTM_NEWLINK);
	found->count++;
	found->last = info->ifi_index;
}

/* From another process's socket, as far as the kernel is concerned. */
static void send_false(int from, int to, struct nlmsghdr *message)
{
	struct sockaddr_nl address = { 0 };
	socklen_t size = sizeof(address);

	assert_int_equal(getsockname(to, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(sendto(from, message, message->nlmsg_len, 0, (struct sockaddr *)&address,
				sizeof(address)),
			 message->nlmsg_len);
}

/* What shares the namespace and may administer it answers before the kernel does. */
static void test_answers_of_others(void **state)
{
	static const struct ifinfomsg any;
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} refusal = { .header = { .nlmsg_len = sizeof(refusal), .nlmsg_type = NLMSG_ERROR },
		      .error.error = -ENODEV };
	struct {
		struct nlmsghdr header;
		struct ifinfomsg info;
	} link = { .header = { .nlmsg_len = sizeof(link), .nlmsg_type = RTM_NEWLINK },
		   .info = { .ifi_index = 4711 } };
	struct netlink_request request;
	struct found found = { 0 };
	struct err err;
	int ours, others;

	if (unshare(CLONE_NEWNET) < 0) /* there is the loopback interface alone */
		skip();
	ours = netlink_open(NETLINK_ROUTE, &err);
	others = netlink_open(NETLINK_ROUTE, &err);
	assert_true(ours >= 0 && others >= 0);
	netlink_begin(&request, RTM_GETLINK, NLM_F_DUMP, &any, sizeof(any));
	/* Its port is known from the first message on. */
	assert_int_equal(netlink_ask(ours, &request, take, &found), 0);
	assert_int_equal(found.count, 1);
	send_false(others, ours, &link.header);
	send_false(others, ours, &refusal.header);
	found.count = 0;
	assert_int_equal(netlink_ask(ours, &request, take, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.last, if_nametoindex("lo"));
	close(ours);
	close(others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
