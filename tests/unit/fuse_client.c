/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fuse_client.h"

#include "base/mem.h"
#include "base/path.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_answer(const struct fuse_client *client, struct chain *chain)
{
	uint32_t first = client->room < 21 ? client->room : 21;

	chain->writable_size = client->room;
	if (client->room)
		chain->iov[chain->readable_count + chain->writable_count++] =
			(struct iovec){ client->answer, first };
	if (client->room > first)
		chain->iov[chain->readable_count + chain->writable_count++] =
			(struct iovec){ client->answer + first, client->room - first };
	memset(client->answer, 0xee, sizeof(struct fuse_out_header));
}

static int answered(struct fuse_client *client, uint32_t n)
{
	const struct fuse_out_header *out = (void *)client->answer;

	client->answered = 0;
	if (!n)
		return 1;
	if (out->len != n || out->unique != 77 || out->error > 0 || n > client->room)
		abort();
	client->answered = n - sizeof(*out);
	if (out->error && client->answered)
		abort();
	return out->error;
}

/* Its parts are the caller's: it is copied. */
static void park(struct fuse_client *client, struct chain *chain)
{
	if (client->parked)
		abort(); /* there may be one only */
	client->parked_size = chain->readable_size;
	client->parked = xcalloc(1, client->parked_size);
	chain->read_done = 0;
	chain_read(chain, client->parked, client->parked_size);
}

int client_wait(struct fuse_client *client)
{
	struct chain chain = { .readable_count = 1,
			       .readable_size = (uint32_t)client->parked_size,
			       .iov = { { client->parked, client->parked_size } } };
	uint32_t n;

	session_watch(client->session);
	if (!client->parked)
		abort();
	if (!session_has_changes(client->session))
		return CLIENT_PARKED;
	add_answer(client, &chain);
	n = session_serve_parked(client->session, &client->worker, &chain);
	if (n == SESSION_PARKED)
		return CLIENT_PARKED;
	free(client->parked);
	client->parked = NULL;
	return answered(client, n);
}

int client_call(struct fuse_client *client, uint32_t opcode, uint64_t node, const void *arg,
		size_t arg_size, const void *text, size_t text_size)
{
	struct fuse_in_header in = { .len = (uint32_t)(sizeof(in) + arg_size + text_size),
				     .opcode = opcode,
				     .unique = 77,
				     .nodeid = node,
				     .uid = client->uid,
				     .gid = client->gid,
				     .pid = client->pid ? client->pid : 1 };
	struct chain chain = { .readable_size = in.len };
	uint32_t n;

	/* In pieces, as a guest may cut a request where it likes. */
	chain.iov[chain.readable_count++] = (struct iovec){ &in, 16 };
	chain.iov[chain.readable_count++] = (struct iovec){ (uint8_t *)&in + 16, sizeof(in) - 16 };
	if (arg_size)
		chain.iov[chain.readable_count++] = (struct iovec){ (void *)arg, arg_size };
	if (text_size)
		chain.iov[chain.readable_count++] = (struct iovec){ (void *)text, text_size };
	add_answer(client, &chain);
	n = session_serve(client->session, &client->worker, &chain);
	if (n == SESSION_PARKED) {
		park(client, &chain);
		return CLIENT_PARKED;
	}
	return answered(client, n);
}

int client_name(struct fuse_client *client, uint32_t opcode, uint64_t node, const void *arg,
		size_t arg_size, const char *name, const char *second)
{
	static _Thread_local char text[1 << 17];
	size_t size = strlen(name) + 1;

	memcpy(text, name, size);
	if (second) {
		memcpy(text + size, second, strlen(second) + 1);
		size += strlen(second) + 1;
	}
	return client_call(client, opcode, node, arg, arg_size, text, size);
}

static void must(bool good, const char *what)
{
	if (!good) {
		perror(what);
		abort();
	}
}

void client_open(struct fuse_client *client, uint32_t tree_flags)
{
	struct fuse_init_in init = {
		.major = FUSE_KERNEL_VERSION, .minor = 41, .flags = ~0u, .flags2 = ~0u
	};
	struct fs_tree_add add = { .index = 0, .flags = tree_flags };
	char tree[96];
	struct err err;

	*client = (struct fuse_client){ .room = CLIENT_ROOM };
	client->answer = xcalloc(1, CLIENT_ROOM);
	snprintf(client->directory, sizeof(client->directory), "/tmp/test-fs-XXXXXX");
	must(mkdtemp(client->directory), "make a directory");
	snprintf(tree, sizeof(tree), "%s/tree", client->directory);
	must(mkdir(tree, 0755) == 0, "make the tree");
	must(chmod(client->directory, 0755) == 0, "open it to all");
	client->session = session_new(4096, 256, &err);
	must(client->session, "make a session");
	watches_init(&client->session->watches, WATCHES_UID_OWN);
	must(session_add_tree(client->session, &add, open(tree, O_PATH | O_CLOEXEC), &err) == 0,
	     "add the tree");
	must(session_enter(client->session, &client->worker, &err) == 0, "enter");
	must(client_call(client, FUSE_INIT, 0, &init, sizeof(init), NULL, 0) == 0, "INIT");
	client->tree = client_lookup(client, FUSE_ROOT_ID, "0");
	must(client->tree, "look the tree up");
}

void client_join(struct fuse_client *client, const struct fuse_client *first)
{
	struct err err;

	*client = (struct fuse_client){ .session = first->session,
					.tree = first->tree,
					.room = CLIENT_ROOM };
	memcpy(client->directory, first->directory, sizeof(client->directory));
	client->answer = xcalloc(1, CLIENT_ROOM);
	must(unshare(CLONE_FS) == 0, "have a umask of one's own");
	must(session_enter(client->session, &client->worker, &err) == 0, "enter");
}

void client_leave(struct fuse_client *client)
{
	worker_free(&client->worker);
	free(client->answer);
}

void client_close(struct fuse_client *client)
{
	session_free(client->session);
	worker_free(&client->worker);
	must(chdir("/") == 0, "leave");
	must(path_remove_tree(AT_FDCWD, client->directory, NULL) == 0, "clean up");
	free(client->answer);
	free(client->parked);
}

uint64_t client_lookup(struct fuse_client *client, uint64_t dir, const char *name)
{
	const struct fuse_entry_out *entry = client_payload(client);

	return client_name(client, FUSE_LOOKUP, dir, NULL, 0, name, NULL) == 0 ? entry->nodeid : 0;
}

uint64_t client_create(struct fuse_client *client, uint64_t dir, const char *name, uint32_t mode,
		       uint64_t *handle)
{
	struct fuse_create_in in = { .flags = O_RDWR | O_CREAT, .mode = S_IFREG | mode };
	const struct fuse_entry_out *entry = client_payload(client);
	const struct fuse_open_out *opened = (const void *)(entry + 1);

	if (client_name(client, FUSE_CREATE, dir, &in, sizeof(in), name, NULL) < 0)
		return 0;
	*handle = opened->fh;
	return entry->nodeid;
}

uint64_t client_mkdir(struct fuse_client *client, uint64_t dir, const char *name)
{
	struct fuse_mkdir_in in = { .mode = 0755 };
	const struct fuse_entry_out *entry = client_payload(client);

	if (client_name(client, FUSE_MKDIR, dir, &in, sizeof(in), name, NULL) < 0)
		return 0;
	return entry->nodeid;
}

int client_open_node(struct fuse_client *client, uint64_t node, uint32_t flags, uint64_t *handle)
{
	struct fuse_open_in in = { .flags = flags & ~(uint32_t)O_DIRECTORY };
	const struct fuse_open_out *out = client_payload(client);
	int r = client_call(client, flags & O_DIRECTORY ? FUSE_OPENDIR : FUSE_OPEN, node, &in,
			    sizeof(in), NULL, 0);

	if (r == 0)
		*handle = out->fh;
	return r;
}

int client_read(struct fuse_client *client, uint64_t node, uint64_t handle, uint64_t offset,
		uint32_t size)
{
	struct fuse_read_in in = { .fh = handle, .offset = offset, .size = size };

	return client_call(client, FUSE_READ, node, &in, sizeof(in), NULL, 0);
}

int client_write(struct fuse_client *client, uint64_t node, uint64_t handle, uint64_t offset,
		 const char *text, uint32_t flags, uint32_t write_flags)
{
	struct fuse_write_in in = { .fh = handle,
				    .offset = offset,
				    .size = (uint32_t)strlen(text),
				    .flags = flags,
				    .write_flags = write_flags };

	return client_call(client, FUSE_WRITE, node, &in, sizeof(in), text, strlen(text));
}

int client_setattr(struct fuse_client *client, uint64_t node, const struct fuse_setattr_in *in)
{
	return client_call(client, FUSE_SETATTR, node, in, sizeof(*in), NULL, 0);
}

int client_getattr(struct fuse_client *client, uint64_t node, struct fuse_attr *attr)
{
	struct fuse_getattr_in in = { 0 };
	const struct fuse_attr_out *out = client_payload(client);
	int r = client_call(client, FUSE_GETATTR, node, &in, sizeof(in), NULL, 0);

	if (r == 0 && attr)
		*attr = out->attr;
	return r;
}

void client_forget(struct fuse_client *client, uint64_t node, uint64_t lookups)
{
	struct fuse_forget_in in = { .nlookup = lookups };

	client_call(client, FUSE_FORGET, node, &in, sizeof(in), NULL, 0);
}

const char *client_path(const struct fuse_client *client, const char *name)
{
	static _Thread_local char paths[4][512];
	static _Thread_local unsigned int next;
	char *path = paths[next++ % ARRAY_LEN(paths)];

	snprintf(path, sizeof(paths[0]), "%s/tree/%s", client->directory, name);
	return path;
}
