/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRIU holds a network namespace's packets back while it saves connections, by a table of nftables
 * that stays until they are restored, lest the kernel tells the other end of a connection that it
 * is gone. Where no connections were saved that is of no use, and a namespace that others are in,
 * too, must not stay cut off.
 */
#include "sandbox/image.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/netlink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>

#define TABLE_PREFIX "CRIU-"
#define TABLES_MAX   64

/* A netlink socket in the network namespace of a process. */
static int open_socket(pid_t pid, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/ns/net", (int)pid);
	_cleanup_fd_ int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int its = open(path, O_RDONLY | O_CLOEXEC);
	int fd;

	if (own < 0 || its < 0 || setns(its, CLONE_NEWNET) < 0)
		return err_set(err, errno, "look into the container's network namespace");
	fd = netlink_open(NETLINK_NETFILTER, err);
	if (setns(own, CLONE_NEWNET) < 0) {
		fd_close_pointer(&fd);
		return err_set(err, errno, "return to the own network namespace");
	}
	return fd;
}

static void take_table(const struct nlmsghdr *message, void *context)
{
	struct image_network *network = context;
	const struct nlattr *name = netlink_find(message, sizeof(struct nfgenmsg), NFTA_TABLE_NAME);
	size_t size = name ? netlink_size(name) : 0;

	if (!size || network->count == TABLES_MAX ||
	    ((const char *)netlink_data(name))[size - 1] != '\0' ||
	    !str_starts_with(netlink_data(name), TABLE_PREFIX))
		return;
	network->tables = xrealloc(network->tables, network->count + 1, sizeof(char *));
	network->tables[network->count++] = xstrdup(netlink_data(name));
}

static void begin(struct netlink_request *request, int type, int flags)
{
	bool batch = type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END;
	struct nfgenmsg header = { .nfgen_family = batch ? AF_UNSPEC : NFPROTO_INET,
				   .version = NFNETLINK_V0,
				   .res_id = batch ? htons(NFNL_SUBSYS_NFTABLES) : 0 };

	netlink_begin(request, batch ? type : NFNL_SUBSYS_NFTABLES << 8 | type, flags, &header,
		      sizeof(header));
}

/* A kernel without nftables has no tables. */
static void list_tables(struct image_network *network)
{
	struct netlink_request request;

	begin(&request, NFT_MSG_GETTABLE, NLM_F_DUMP);
	(void)netlink_ask(network->socket, &request, take_table, network);
}

static void delete_table(int socket, const char *name)
{
	struct netlink_request requests[3];

	begin(&requests[0], NFNL_MSG_BATCH_BEGIN, 0);
	begin(&requests[1], NFT_MSG_DELTABLE, 0);
	netlink_add_string(&requests[1], NFTA_TABLE_NAME, name);
	begin(&requests[2], NFNL_MSG_BATCH_END, 0);
	(void)netlink_ask_all(socket, requests, ARRAY_LEN(requests));
}

static bool has(const struct image_network *network, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(network->tables[i], name))
			return true;
	return false;
}

int image_network_open(struct image_network *network, pid_t pid, struct err *err)
{
	network->socket = open_socket(pid, err);
	if (network->socket < 0)
		return -1;
	list_tables(network);
	return 0;
}

void image_network_unlock(struct image_network *network)
{
	size_t before = network->count;

	list_tables(network);
	for (size_t i = before; i < network->count; i++)
		if (!has(network, before, network->tables[i]))
			delete_table(network->socket, network->tables[i]);
}

void image_network_close(struct image_network *network)
{
	fd_replace(&network->socket, -1);
	for (size_t i = 0; i < network->count; i++)
		free(network->tables[i]);
	free(network->tables);
}
