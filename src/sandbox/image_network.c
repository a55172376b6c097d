/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRIU holds a network namespace's packets back while it saves connections, by a table of nftables
 * that stays until they are restored, lest the kernel tells the other end of a connection that it
 * is gone. Where no connections were saved that is of no use, and a namespace that others are in,
 * too, must not stay cut off. After a restore CRIU 3.17 looks for a table by another name than the
 * one it gave it, so that it is deleted here.
 */
#include "sandbox/image.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/netlink.h"
#include "oci/config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sched.h>

#define TABLE_PREFIX "CRIU-"
#define TABLES_MAX   64
#define NETWORK_FILE "network.json"

/* A netlink socket in a network namespace. */
static int open_socket(const char *path, struct err *err)
{
	_cleanup_fd_ int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int its = open(path, O_RDONLY | O_CLOEXEC);
	int fd;

	if (own < 0 || its < 0 || setns(its, CLONE_NEWNET) < 0)
		return err_set(err, errno, "look into the container's network namespace %s", path);
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

static int open_network(struct image_network *network, const char *path, struct err *err)
{
	network->socket = open_socket(path, err);
	if (network->socket < 0)
		return -1;
	list_tables(network);
	return 0;
}

int image_network_open(struct image_network *network, pid_t pid, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/ns/net", (int)pid);

	return open_network(network, path, err);
}

static int keep_names(const struct image_network *network, size_t first, int dirfd, struct err *err)
{
	struct json_writer *writer = json_writer_new(NULL);
	_cleanup_free_ char *text = NULL;
	size_t size;

	json_begin_array(writer);
	for (size_t i = first; i < network->count; i++)
		if (!has(network, first, network->tables[i]))
			json_put_string(writer, network->tables[i]);
	json_end_array(writer);
	text = json_writer_finish(writer, &size);
	return file_replace(dirfd, NETWORK_FILE, text, size, 0600, err);
}

int image_network_saved(struct image_network *network, const struct image_options *image,
			struct err *err)
{
	size_t before = network->count;

	if (image->pre_dump)
		return 0;
	list_tables(network);
	if (image->tcp_established)
		return keep_names(network, before, image->fd, err);
	for (size_t i = before; i < network->count; i++)
		if (!has(network, before, network->tables[i]))
			delete_table(network->socket, network->tables[i]);
	return 0;
}

static int delete_kept(const struct image_network *network, int dirfd, struct err *err)
{
	struct json_document *document;
	size_t size;
	_cleanup_free_ char *text = file_read(dirfd, NETWORK_FILE, JSON_SIZE_MAX, &size, err);

	if (!text)
		return err->code == ENOENT ? 0 : -1;
	document = json_parse(text, size, NETWORK_FILE, 0, err);
	if (!document)
		return -1;
	for (const struct json *one = json_root(document)->first; one; one = one->next)
		if (one->kind == JSON_STRING && has(network, network->count, one->text))
			delete_table(network->socket, one->text);
	json_free(document);
	return 0;
}

int image_network_restored(const struct container *container, const struct image_options *image,
			   struct err *err)
{
	_cleanup_(image_network_close) struct image_network network = { .socket = -1 };
	const struct oci_linux *linux_ = container->config->linux_;
	const char *path = "/proc/self/ns/net";

	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++)
		if (str_eq(linux_->namespaces[i].type, "network"))
			path = linux_->namespaces[i].path;
	if (path && *path)
		return open_network(&network, path, err) < 0
			       ? -1
			       : delete_kept(&network, image->fd, err);
	/* One that was made for the container: all in it is its own. It may be gone by now. */
	if (image_network_open(&network, container->pid, NULL) == 0)
		for (size_t i = 0; i < network.count; i++)
			delete_table(network.socket, network.tables[i]);
	return 0;
}

void image_network_close(struct image_network *network)
{
	fd_replace(&network->socket, -1);
	for (size_t i = 0; i < network->count; i++)
		free(network->tables[i]);
	free(network->tables);
}
