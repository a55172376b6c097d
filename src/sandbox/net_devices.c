/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network devices that become the container's. Moving one takes it down and its addresses away, so
 * that these are read before and given back after. It travels under a name of its own, by which it
 * is found again on the other side, where its number may be another.
 */
#include "sandbox/net_devices.h"

#include "base/fd.h"
#include "base/log.h"
#include "net/netlink.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define ADDRESSES_MAX 64

struct address {
	struct ifaddrmsg header;
	uint32_t flags;
	unsigned char local[16], peer[16], broadcast[16];
	size_t local_size, peer_size, broadcast_size;
};

struct moved_device {
	char name[IFNAMSIZ]; /* on the host */
	int index;	     /* where it is now */
	unsigned int flags;  /* IFF_* on the host */
	struct address addresses[ADDRESSES_MAX];
	size_t n_addresses;
	bool too_many;
};

static void take_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);
	struct moved_device *device = context;

	if (message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return;
	device->index = info->ifi_index;
	device->flags = info->ifi_flags;
}

/* Sets the index, and the flags. */
static int find_link(int link, const char *name, struct moved_device *device)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
	struct netlink_request request;

	netlink_begin(&request, RTM_GETLINK, 0, &info, sizeof(info));
	netlink_add(&request, IFLA_IFNAME, name, strlen(name) + 1);
	return netlink_ask(link, &request, take_link, device);
}

static size_t copy_bytes(const struct nlmsghdr *message, int type, unsigned char bytes[16])
{
	const struct nlattr *attribute = netlink_find(message, sizeof(struct ifaddrmsg), type);

	if (!attribute || netlink_size(attribute) > 16)
		return 0;
	memcpy(bytes, netlink_data(attribute), netlink_size(attribute));
	return netlink_size(attribute);
}

static void take_address(const struct nlmsghdr *message, void *context)
{
	const struct ifaddrmsg *header = NLMSG_DATA(message);
	struct moved_device *device = context;
	const struct nlattr *flags;
	struct address *address;

	if (message->nlmsg_type != RTM_NEWADDR || (int)header->ifa_index != device->index ||
	    header->ifa_scope != RT_SCOPE_UNIVERSE)
		return;
	if (device->n_addresses == ADDRESSES_MAX) {
		device->too_many = true;
		return;
	}
	address = &device->addresses[device->n_addresses];
	*address = (struct address){ .header = *header, .flags = header->ifa_flags };
	flags = netlink_find(message, sizeof(*header), IFA_FLAGS);
	if (flags && netlink_size(flags) == sizeof(address->flags))
		memcpy(&address->flags, netlink_data(flags), sizeof(address->flags));
	if (!(address->flags & IFA_F_PERMANENT))
		return;
	address->local_size = copy_bytes(message, IFA_LOCAL, address->local);
	address->peer_size = copy_bytes(message, IFA_ADDRESS, address->peer);
	address->broadcast_size = copy_bytes(message, IFA_BROADCAST, address->broadcast);
	device->n_addresses++;
}

static int read_addresses(int link, struct moved_device *device)
{
	struct ifaddrmsg header = { .ifa_family = AF_UNSPEC };
	struct netlink_request request;

	netlink_begin(&request, RTM_GETADDR, NLM_F_DUMP, &header, sizeof(header));
	return netlink_ask(link, &request, take_address, device);
}

static int add_address(int link, int index, const struct address *address)
{
	struct ifaddrmsg header = address->header;
	uint32_t flags = address->flags & (IFA_F_NODAD | IFA_F_NOPREFIXROUTE);
	struct netlink_request request;

	header.ifa_index = (uint32_t)index;
	header.ifa_flags = 0;
	netlink_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	netlink_add(&request, IFA_FLAGS, &flags, sizeof(flags));
	if (address->local_size)
		netlink_add(&request, IFA_LOCAL, address->local, address->local_size);
	if (address->peer_size)
		netlink_add(&request, IFA_ADDRESS, address->peer, address->peer_size);
	if (address->broadcast_size)
		netlink_add(&request, IFA_BROADCAST, address->broadcast, address->broadcast_size);
	return netlink_ask(link, &request, NULL, NULL);
}

/* @namespace: where it goes; -1: it stays. @name: its new name; NULL: as it is. */
static int change_link(int link, int index, unsigned int up, int namespace, const char *name)
{
	struct ifinfomsg info = {
		.ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = up, .ifi_change = up
	};
	struct netlink_request request;

	netlink_begin(&request, RTM_NEWLINK, 0, &info, sizeof(info));
	if (namespace >= 0)
		netlink_add(&request, IFLA_NET_NS_FD, &namespace, sizeof(namespace));
	if (name)
		netlink_add(&request, IFLA_IFNAME, name, strlen(name) + 1);
	return netlink_ask(link, &request, NULL, NULL);
}

/* What a device had, where it is now. */
static int settle(int link, const struct moved_device *device, bool up)
{
	for (size_t i = 0; i < device->n_addresses; i++)
		if (add_address(link, device->index, &device->addresses[i]) < 0)
			return -1;
	return up ? change_link(link, device->index, IFF_UP, -1, NULL) : 0;
}

static int move(struct net_devices *devices, const struct oci_net_device *config, struct err *err)
{
	struct moved_device *device = &devices->moved[devices->count];
	const char *name = config->name && *config->name ? config->name : config->key;
	char passing[IFNAMSIZ];

	if (!*config->key || strlen(config->key) >= IFNAMSIZ || strlen(name) >= IFNAMSIZ)
		return err_set(err, 0, "a device's name has 1 to %d bytes", IFNAMSIZ - 1);
	snprintf(device->name, sizeof(device->name), "%s", config->key);
	snprintf(passing, sizeof(passing), "moat.%zu", devices->count);
	if (find_link(devices->own_link, config->key, device) < 0)
		return err_set(err, errno, "find it on the host");
	if (read_addresses(devices->own_link, device) < 0)
		return err_set(err, errno, "read its addresses");
	if (device->too_many)
		return err_set(err, 0, "it has more than %d addresses", ADDRESSES_MAX);
	if (change_link(devices->own_link, device->index, 0, devices->inside, passing) < 0)
		return err_set(err, errno, "move it into the container");
	devices->count++;
	return 0;
}

/* The device that move() has moved is looked up, named and brought up in the container. */
static int arrive(struct net_devices *devices, const struct oci_net_device *config, struct err *err)
{
	struct moved_device *device = &devices->moved[devices->count - 1];
	const char *name = config->name && *config->name ? config->name : config->key;
	struct moved_device there = { 0 };
	char passing[IFNAMSIZ];

	snprintf(passing, sizeof(passing), "moat.%zu", devices->count - 1);
	if (find_link(devices->inside_link, passing, &there) < 0)
		return err_set(err, errno, "find it in the container");
	device->index = there.index;
	if (change_link(devices->inside_link, device->index, 0, -1, name) < 0)
		return err_set(err, errno, "name it %s", name);
	if (settle(devices->inside_link, device, true) < 0)
		return err_set(err, errno, "give it its addresses and bring it up");
	return 0;
}

static int open_sockets(struct net_devices *devices, int namespace, struct err *err)
{
	devices->own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	devices->inside = fcntl(namespace, F_DUPFD_CLOEXEC, 0);
	if (devices->own < 0 || devices->inside < 0)
		return err_set(err, errno, "open the network namespaces");
	devices->own_link = netlink_open(NETLINK_ROUTE, err);
	if (devices->own_link < 0)
		return -1;
	if (setns(devices->inside, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter the container's network namespace");
	devices->inside_link = netlink_open(NETLINK_ROUTE, err);
	if (setns(devices->own, CLONE_NEWNET) < 0)
		return err_set(err, errno, "return to our own network namespace");
	return devices->inside_link < 0 ? -1 : 0;
}

int net_devices_move(struct net_devices *devices, const struct oci_linux *config, int namespace,
		     struct err *err)
{
	*devices =
		(struct net_devices){ .own = -1, .inside = -1, .own_link = -1, .inside_link = -1 };
	devices->moved = xcalloc(config->n_net_devices, sizeof(*devices->moved));
	if (open_sockets(devices, namespace, err) < 0)
		return err_wrap(err, "move linux.netDevices");
	for (size_t i = 0; i < config->n_net_devices; i++)
		if (move(devices, &config->net_devices[i], err) < 0 ||
		    arrive(devices, &config->net_devices[i], err) < 0)
			return err_wrap(err, "linux.netDevices: %s", config->net_devices[i].key);
	return 0;
}

static int bring_back(const struct net_devices *devices, struct moved_device *device)
{
	struct moved_device here = { 0 };

	if (change_link(devices->inside_link, device->index, 0, devices->own, device->name) < 0 ||
	    find_link(devices->own_link, device->name, &here) < 0)
		return -1;
	device->index = here.index;
	return settle(devices->own_link, device, device->flags & IFF_UP);
}

void net_devices_release(struct net_devices *devices, bool back)
{
	if (!devices->moved)
		return;
	for (size_t i = 0; back && i < devices->count; i++)
		if (bring_back(devices, &devices->moved[i]) < 0)
			log_warning("bring the network device %s back: %s", devices->moved[i].name,
				    strerror(errno));
	fd_replace(&devices->own, -1);
	fd_replace(&devices->inside, -1);
	fd_replace(&devices->own_link, -1);
	fd_replace(&devices->inside_link, -1);
	free(devices->moved);
	*devices = (struct net_devices){ 0 };
}
