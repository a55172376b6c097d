/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directories read: READDIR and READDIRPLUS. The offsets that the guest sees are the host's own
 * cookies. An entry with attributes costs a statx(2) and no descriptor.
 */
#include "fs/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel writes it (getdents64(2)). */
struct host_entry {
	uint64_t ino;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

#define BATCH_MIN 1024u /* holds the longest entry */

/* One answer under way. */
struct listing {
	struct session *session;
	struct request *request;
	struct handle *handle;
	bool plus;
	size_t room, used; /* bytes */
};

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Attributes to go with a name; none where it has just vanished or the table is full. */
static void look(struct listing *listing, const char *name, struct fuse_entry_out *out)
{
	struct session *session = listing->session;
	struct handle *handle = listing->handle;
	struct statx stx;

	*out = (struct fuse_entry_out){ 0 };
	if (is_dots(name))
		return;
	if (handle->fd < 0) {
		if (top_lookup(session, name, out) < 0)
			*out = (struct fuse_entry_out){ 0 };
	} else if (statx(handle->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, NODE_STATX,
			 &stx) == 0) {
		const struct node *node = entry_fill(session, handle->node, name, &stx, out);

		if (node)
			fresh_listed(session, node, out);
	}
}

/* Adds an entry; false where there is no room for it. */
static bool put(struct listing *listing, const char *name, uint64_t ino, uint64_t next,
		uint32_t type)
{
	static const uint8_t zeros[sizeof(uint64_t)];
	size_t length = strlen(name);
	size_t bare = sizeof(struct fuse_dirent) + length, padded = FUSE_REC_ALIGN(bare);
	size_t plus = listing->plus ? sizeof(struct fuse_entry_out) : 0;
	struct fuse_dirent dirent = {
		.ino = ino, .off = next, .namelen = (uint32_t)length, .type = type
	};

	if (plus + padded > listing->room - listing->used)
		return false;
	if (plus) {
		struct fuse_entry_out entry;

		look(listing, name, &entry);
		reply(listing->request, &entry, sizeof(entry));
	}
	reply(listing->request, &dirent, sizeof(dirent));
	reply(listing->request, name, length);
	reply(listing->request, zeros, padded - bare);
	listing->used += plus + padded;
	return true;
}

static void list_top(struct listing *listing, uint64_t from)
{
	char name[16];

	/* Offsets: 1 behind ".", 2 behind "..", n + 3 behind tree n. */
	if (from < 1 && !put(listing, ".", TOP_INODE, 1, DT_DIR))
		return;
	if (from < 2 && !put(listing, "..", TOP_INODE, 2, DT_DIR))
		return;
	for (uint64_t i = from < 2 ? 0 : from - 2; top_next(listing->session, &i); i++) {
		const struct node *root = listing->session->trees[i].root;

		snprintf(name, sizeof(name), "%u", (unsigned int)i);
		if (!put(listing, name,
			 inode_number(listing->session, root->identity.dev, root->identity.ino),
			 i + 3, root->identity.type >> 12))
			return;
	}
}

/* Takes over entries of the host; false when the answer is full. */
static bool put_batch(struct listing *listing, const uint8_t *batch, size_t size)
{
	bool at_root = !listing->handle->node->parent;
	uint32_t dev = listing->handle->node->identity.dev;

	for (size_t at = 0; at < size;) {
		const struct host_entry *entry = (const void *)(batch + at);
		/* What is above the tree is not the guest's. */
		bool hidden = at_root && strcmp(entry->name, "..") == 0;
		uint64_t ino = hidden ? TOP_INODE : inode_number(listing->session, dev, entry->ino);

		if (!put(listing, entry->name, ino, (uint64_t)entry->next, entry->type))
			return false;
		listing->handle->position = entry->next;
		at += entry->size;
	}
	return true;
}

static int list_host(struct listing *listing, int64_t from)
{
	struct handle *handle = listing->handle;
	/* An entry here takes less room than what it becomes: no more are fetched than fit. */
	size_t shrink = listing->plus ? 5 : 1;
	bool more = true;

	if (from != handle->position && lseek(handle->fd, from, SEEK_SET) < 0)
		return -errno;
	handle->position = from;
	while (more) {
		size_t batch = (listing->room - listing->used) / shrink;
		long n;

		if (batch < BATCH_MIN)
			batch = BATCH_MIN;
		if (batch > SESSION_SCRATCH)
			batch = SESSION_SCRATCH;
		n = syscall(SYS_getdents64, handle->fd, listing->request->worker->scratch, batch);
		if (n < 0)
			return listing->used ? 0 : -errno;
		if (n == 0)
			return 0;
		more = put_batch(listing, listing->request->worker->scratch, (size_t)n);
	}
	/* Entries were fetched and not used: next time the host starts behind the last one. */
	if (lseek(handle->fd, handle->position, SEEK_SET) < 0)
		handle->position = -1;
	return listing->used ? 0 : -EINVAL; /* not even one fits */
}

static int list(struct session *session, struct request *request, const struct fuse_read_in *in,
		bool plus)
{
	struct listing listing = { .session = session, .request = request, .plus = plus };
	size_t room = request->chain->writable_size - sizeof(struct fuse_out_header);
	int r = 0;

	listing.room = in->size < room ? in->size : room;
	listing.handle =
		handle_get(&session->handles, in->fh, request_node(session, request), true);
	if (!listing.handle)
		return -EBADF;
	if (in->offset > INT64_MAX)
		return -EINVAL;
	if (listing.handle->fd < 0)
		list_top(&listing, in->offset);
	else
		r = list_host(&listing, (int64_t)in->offset);
	return r < 0 ? r : (int)listing.used;
}

int op_readdir(struct session *session, struct request *request, const void *arg)
{
	return list(session, request, arg, false);
}

int op_readdirplus(struct session *session, struct request *request, const void *arg)
{
	return list(session, request, arg, true);
}
