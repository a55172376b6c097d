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

int tap_open(int link, int *index, struct err *err)
{
	struct ifreq request = { .ifr_name = "moat%d",
				 .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int header = sizeof(struct virtio_net_hdr_v1), little = 1;
	_cleanup_fd_ int fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		err_set(err, errno, "open " DEVICE);
		return errno == ENOENT || errno == ENODEV
			       ? err_hint(err, "a microVM's network needs the kernel module tun")
			       : -1;
	}
	if (ioctl(fd, TUNSETIFF, &request) < 0 || ioctl(fd, TUNSETVNETHDRSZ, &header) < 0 ||
	    ioctl(fd, TUNSETVNETLE, &little) < 0)
		return err_set(err, errno, "make a tap in the container's network namespace");
	if (find_index(link, request.ifr_name, index) < 0 || network_be_silent(link, *index) < 0 ||
	    bring_up(link, *index) < 0)
		return err_set(err, errno, "bring the tap %s up", request.ifr_name);
	return fd_steal(&fd);
}
