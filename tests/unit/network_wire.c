/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test only: what a microVM does with a network, without one. A second network namespace is the
 * guest, and this program moves packets between the taps of both.
 * usage: network_wire FROM TO [INTERFACE]..., files of namespaces; with interfaces of TO, these get
 * the network of FROM, and nothing is moved. Otherwise it says "ready" and runs until it is killed;
 * to SIGTERM it answers how many packets each queue of the taps in FROM has had for the guest.
 * WIRE_QUEUES in the environment: how many queues these have.
 */
#include "base/fd.h"
#include "net/netlink.h"
#include "net/network.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define PACKET_MAX 70000
#define OFFLOADS   (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)

struct wire {
	struct network network;
	int guest[NETWORK_INTERFACES_MAX]; /* taps in TO */
	int indexes[NETWORK_INTERFACES_MAX];
};

static volatile sig_atomic_t ended;

static int enter(const char *path, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		return err_set(err, errno, "enter %s", path);
	return netlink_open(NETLINK_ROUTE, err);
}

/* A network card of the guest. */
static int make_card(struct wire *wire, size_t i, struct err *err)
{
	const Moat__Agent__Interface *interface = wire->network.message->interfaces[i];
	struct ifreq request = { .ifr_name = "card%d",
				 .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK), header = 12, little = 1;

	wire->guest[i] = fd;
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0 ||
	    ioctl(fd, TUNSETVNETHDRSZ, &header) < 0 || ioctl(fd, TUNSETVNETLE, &little) < 0 ||
	    ioctl(fd, TUNSETOFFLOAD, OFFLOADS) < 0 ||
	    ioctl(wire->network.taps[i][0], TUNSETOFFLOAD, OFFLOADS) < 0)
		return err_set(err, errno, "make a card");
	wire->indexes[i] = (int)if_nametoindex(request.ifr_name);
	request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(request.ifr_hwaddr.sa_data, interface->mac.data, interface->mac.len);
	if (ioctl(fd, SIOCSIFHWADDR, &request) < 0)
		return err_set(err, errno, "set a card's MAC");
	return 0;
}

/* Returns how many there were. */
static unsigned long move_packets(int from, int to)
{
	static char packet[PACKET_MAX];
	unsigned long count = 0;
	ssize_t n;

	while ((n = read(from, packet, sizeof(packet))) > 0) {
		(void)!write(to, packet, (size_t)n);
		count++;
	}
	return count;
}

static void end(int signal)
{
	ended = 1;
}

static int attach_queues(const struct wire *wire, size_t i, struct err *err)
{
	struct ifreq request = { .ifr_flags = IFF_ATTACH_QUEUE };

	for (unsigned int j = 1; j < wire->network.pairs; j++)
		if (ioctl(wire->network.taps[i][j], TUNSETQUEUE, &request) < 0)
			return err_set(err, errno, "attach queue %u", j);
	return 0;
}

/* What the card sends goes to one queue after the other. */
static int run(const struct wire *wire, struct err *err)
{
	unsigned int pairs = wire->network.pairs, turn = 0, count = 0;
	unsigned long counts[NETWORK_PAIRS_MAX] = { 0 };
	struct pollfd fds[(NETWORK_PAIRS_MAX + 1) * NETWORK_INTERFACES_MAX];

	for (size_t i = 0; i < wire->network.message->n_interfaces; i++) {
		if (attach_queues(wire, i, err) < 0)
			return -1;
		fds[count++] = (struct pollfd){ .fd = wire->guest[i], .events = POLLIN };
		for (unsigned int j = 0; j < pairs; j++)
			fds[count++] =
				(struct pollfd){ .fd = wire->network.taps[i][j], .events = POLLIN };
	}
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (poll(fds, count, -1) >= 0 && !ended)
		for (unsigned int i = 0; i < count; i++) {
			unsigned int queue = i % (pairs + 1), card = i - queue;

			if (!fds[i].revents)
				continue;
			if (queue)
				counts[queue - 1] += move_packets(fds[i].fd, fds[card].fd);
			else
				move_packets(fds[i].fd, fds[card + 1 + turn++ % pairs].fd);
		}
	for (unsigned int j = 0; j < pairs; j++)
		printf("%lu\n", counts[j]);
	return 0;
}

static int join(struct wire *wire, const char *from, const char *to, struct err *err)
{
	_cleanup_fd_ int namespace = open(from, O_RDONLY | O_CLOEXEC), there = -1;
	const char *queues = getenv("WIRE_QUEUES");

	if (network_attach(&wire->network, namespace, queues ? (unsigned int)atoi(queues) : 1,
			   err) < 0)
		return -1;
	there = enter(to, err);
	if (there < 0)
		return -1;
	for (size_t i = 0; i < wire->network.message->n_interfaces; i++)
		if (make_card(wire, i, err) < 0)
			return -1;
	if (network_apply(wire->network.message, wire->indexes, there, err) < 0)
		return -1;
	return run(wire, err);
}

static int copy(struct wire *wire, const char *from, const char *to, char **names, int count,
		struct err *err)
{
	_cleanup_fd_ int here = enter(from, err), there = -1;

	if (here < 0 || network_look(&wire->network, here, err) < 0)
		return -1;
	there = enter(to, err);
	if (there < 0)
		return -1;
	for (int i = 0; i < count; i++)
		wire->indexes[i] = (int)if_nametoindex(names[i]);
	if (wire->network.message->n_interfaces != (size_t)count)
		return err_set(err, 0, "%s has %zu interfaces", from,
			       wire->network.message->n_interfaces);
	return network_apply(wire->network.message, wire->indexes, there, err);
}

int main(int argc, char **argv)
{
	struct wire wire;
	struct err err;
	int r;

	if (argc < 3 || argc > 3 + (int)NETWORK_INTERFACES_MAX) {
		fprintf(stderr, "usage: network_wire FROM TO [INTERFACE]...\n");
		return 2;
	}
	network_init(&wire.network);
	if (argc == 3)
		r = join(&wire, argv[1], argv[2], &err);
	else
		r = copy(&wire, argv[1], argv[2], argv + 3, argc - 3, &err);
	network_release(&wire.network);
	if (r < 0)
		fprintf(stderr, "%s\n", err.text);
	return r < 0 ? 1 : 0;
}
