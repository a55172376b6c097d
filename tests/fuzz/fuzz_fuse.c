/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FUSE requests of arbitrary bytes on a small tree of files. The input is a row of requests, each
 * a header of this target's own and then its bytes:
 *
 *   opcode, node, flags, size (1 byte each)
 *
 * node picks one of the ids given out so far (or, with a flag, is taken from the bytes); likewise
 * the first 8 bytes of the argument may be replaced by a handle that was given out, so that the
 * fuzzer need not guess them. What lies beside the tree must not change.
 */
#include "../unit/fuse_client.h"

#include "fs/told.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDS_MAX	    16u
#define SECRET_TEXT "untouched"

enum {
	GIVE_HANDLE = 1 << 0,
	SMALL_ANSWER = 1 << 1,
	OTHER_USER = 1 << 2,
	REPEATER = 3 << 3, /* one of the groups of fs/changes.h, or the next one with OTHER_USER */
	HOST_CHANGE = 1 << 5,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct ids {
	uint64_t ids[IDS_MAX];
	unsigned int count;
};

static void learn(struct ids *ids, uint64_t id)
{
	ids->ids[ids->count++ % IDS_MAX] = id;
}

static uint64_t pick(const struct ids *ids, uint8_t number)
{
	unsigned int known = ids->count < IDS_MAX ? ids->count : IDS_MAX;

	return known ? ids->ids[number % known] : number;
}

/* Directory with what an escape would reach; the tree itself is made anew for each input. */
static void prepare(struct fuse_client *client)
{
	char path[160];

	client_open(client, FS_TREE_SHARED);
	snprintf(path, sizeof(path), "%s/secret", client->directory);
	file_replace(AT_FDCWD, path, SECRET_TEXT, strlen(SECRET_TEXT), 0600, NULL);
	(void)!symlink("../secret", client_path(client, "link"));
	(void)!mkdir(client_path(client, "dir"), 0755);
	(void)!mkfifo(client_path(client, "dir/fifo"), 0644);
	file_replace(AT_FDCWD, client_path(client, "dir/file"), "some text", 9, 0644, NULL);
}

static void check_and_clean(struct fuse_client *client)
{
	char path[160], *text;
	struct stat st;

	snprintf(path, sizeof(path), "%s/secret", client->directory);
	text = file_read(AT_FDCWD, path, 100, NULL, NULL);
	if (!text || strcmp(text, SECRET_TEXT) != 0 || stat(path, &st) < 0 || st.st_nlink != 1 ||
	    st.st_mode != (S_IFREG | 0600) || st.st_uid)
		abort();
	free(text);
	if (stat(client->directory, &st) < 0 || st.st_mode != (S_IFDIR | 0755) || st.st_nlink > 3)
		abort();
	client_close(client);
}

/* What the host does meanwhile, and the answer that it may bring to the request that waits. */
static void change(struct fuse_client *client, uint8_t what)
{
	const char *text = what & 1 ? "changed" : "changed more";

	if (what & 2)
		(void)!unlink(client_path(client, "dir/file"));
	else
		file_replace(AT_FDCWD, client_path(client, "dir/file"), text, strlen(text), 0644,
			     NULL);
	if (client->parked)
		client_wait(client);
	else
		session_watch(client->session);
}

static void learn_from(const struct fuse_client *client, uint32_t opcode, struct ids *nodes,
		       struct ids *handles)
{
	const struct fuse_entry_out *entry = client_payload(client);
	const struct fuse_open_out *opened = client_payload(client);

	if (client->answered == sizeof(*entry) + sizeof(*opened)) {
		learn(nodes, entry->nodeid);
		learn(handles, ((const struct fuse_open_out *)(entry + 1))->fh);
	} else if (client->answered == sizeof(*entry)) {
		learn(nodes, entry->nodeid);
	} else if (opcode == FUSE_OPEN || opcode == FUSE_OPENDIR) {
		learn(handles, opened->fh);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rlimit limit = { .rlim_cur = 1u << 24, .rlim_max = RLIM_INFINITY };
	struct ids nodes = { 0 }, handles = { 0 };
	struct fuse_client client;

	setrlimit(RLIMIT_FSIZE, &limit); /* no input fills the disk */
	signal(SIGXFSZ, SIG_IGN);
	prepare(&client);
	learn(&nodes, client.tree);
	learn(&nodes, FUSE_ROOT_ID);
	learn(&nodes, CHANGES_NODE);
	while (size >= 4) {
		uint8_t opcode = data[0], node = data[1], flags = data[2], bytes[256];
		size_t length = data[3];

		data += 4;
		size -= 4;
		if (length > size)
			length = size;
		memcpy(bytes, data, length);
		data += length;
		size -= length;
		if (flags & GIVE_HANDLE && length >= sizeof(uint64_t)) {
			uint64_t handle = pick(&handles, bytes[0]);

			memcpy(bytes, &handle, sizeof(handle));
		}
		if (opcode == FUSE_SYNCFS) /* slow, and about the whole disk */
			continue;
		client.room = flags & SMALL_ANSWER ? 200 : CLIENT_ROOM;
		client.uid = client.gid = flags & OTHER_USER ? 1000 : 0;
		if (flags & REPEATER)
			client.gid = CHANGES_GID_PRESENT - 1 + (flags & REPEATER) / 8 +
				     (flags & OTHER_USER ? 1 : 0);
		if (flags & HOST_CHANGE)
			change(&client, node);
		if (client_call(&client, opcode, pick(&nodes, node), bytes, length, NULL, 0) == 0)
			learn_from(&client, opcode, &nodes, &handles);
	}
	check_and_clean(&client);
	return 0;
}
