/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Taps: where the vmm takes frames for the guest from, and puts the guest's. A tap has no address
 * and makes none, so the namespace's kernel has nothing to say on it.
 */
#include "net/network.h"

#include "base/fd.h"
#include "net/netlink.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define DEVICE "/dev/net/tun"

int network_be_silent(int link, int index)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	uint8_t none = IN6_ADDR_GEN_MODE_NONE;
	struct netlink_request request;
	size_t families, family;

	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	families = netlink_nest(&request, IFLA_AF_SPEC);
	family = netlink_nest(&request, AF_INET6);
	netlink_add(&request, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
	netlink_nest_end(&request, family);
	netlink_nest_end(&request, families);
	/* Where there is no IPv6, there is nothing to be silenced. */
	return netlink_ask(link, &request, NULL, NULL) < 0 && errno != EAFNOSUPPORT ? -1 : 0;
}

static void take_index(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);

	if (message->nlmsg_type == RTM_NEWLINK && message->nlmsg_len >= NLMSG_LENGTH(sizeof(*info)))
		*(int *)context = info->ifi_index;
}

static int find_index(int link, const char *name, int *index)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
	struct netlink_request request;

	netlink_begin(&request, RTM_GETLINK, 0, &info, sizeof(info));
	netlink_add_string(&request, IFLA_IFNAME, name);
	return netlink_ask(link, &request, take_index, index);
}

static int bring_up(int link, int index)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC,
				  .ifi_index = index,
				  .ifi_flags = IFF_UP | IFF_NOARP,
				  .ifi_change = IFF_UP | IFF_NOARP };
	struct netlink_request request;

	netlink_begin(&request, RTM_SETLINK, 0, &info, sizeof(info));
	return netlink_ask(link, &request, NULL, NULL);
}

/*
 * A tap that can have several queues has 256 of them on the way to its reader, and the kernel would
 * give each a waiting line of its own, 6 MiB in all. A tap drops what it has no room for: nothing
 * ever waits there. A kernel that cannot be told so (CONFIG_NET_SCHED) makes none.
 */
static void have_no_lines(int link, int index)
{
	struct tcmsg info = { .tcm_family = AF_UNSPEC,
			      .tcm_ifindex = index,
			      .tcm_parent = TC_H_ROOT };
	struct netlink_request request;

	netlink_begin(&request, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &info, sizeof(info));
	netlink_add_string(&request, TCA_KIND, "noqueue");
	(void)netlink_ask(link, &request, NULL, NULL);
}

/* One more queue of the tap of that name, which is made with the first one. */
static int open_queue(struct ifreq *request, struct err *err)
{
	_cleanup_fd_ int fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		err_set(err, errno, "open " DEVICE);
		return errno == ENOENT || errno == ENODEV
			       ? err_hint(err, "a microVM's network needs the kernel module tun")
			       : -1;
	}
	if (ioctl(fd, TUNSETIFF, request) < 0)
		return err_set(err, errno, "make a tap in the container's network namespace");
	return fd_steal(&fd);
}

static int open_queues(struct ifreq *request, int *queues, unsigned int count, struct err *err)
{
	struct ifreq apart = { .ifr_flags = IFF_DETACH_QUEUE };

	for (unsigned int i = 0; i < count; i++) {
		queues[i] = open_queue(request, err);
		if (queues[i] < 0)
			return -1;
		if (i > 0 && ioctl(queues[i], TUNSETQUEUE, &apart) < 0)
			return err_set(err, errno, "detach a queue from its tap");
	}
	return 0;
}

int tap_open(int link, int *index, int *queues, unsigned int count, struct err *err)
{
	struct ifreq request = { .ifr_name = "moat%d",
				 .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int header = sizeof(struct virtio_net_hdr_v1), little = 1;

	if (count > 1)
		request.ifr_flags |= IFF_MULTI_QUEUE;
	if (open_queues(&request, queues, count, err) < 0)
		return -1;
	if (ioctl(queues[0], TUNSETVNETHDRSZ, &header) < 0 ||
	    ioctl(queues[0], TUNSETVNETLE, &little) < 0)
		return err_set(err, errno, "make a tap in the container's network namespace");
	if (find_index(link, request.ifr_name, index) < 0)
		return err_set(err, errno, "find the tap %s", request.ifr_name);
	if (count > 1)
		have_no_lines(link, *index);
	if (network_be_silent(link, *index) < 0 || bring_up(link, *index) < 0)
		return err_set(err, errno, "bring the tap %s up", request.ifr_name);
	return 0;
}
