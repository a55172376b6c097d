/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests of the one who repeats what the host did (fs/changes.h). Each is answered as if it had
 * been done just now; nothing is done. A guest that sends them for other ends fails to change its
 * own files.
 */
#include "fs/told.h"

#include "base/mem.h"

#include <errno.h>

/*
 * Attributes of a file. One that is gone has those that are known of it: its type must be true, or
 * the guest's kernel gives the inode up.
 */
static void told_attr(struct session *session, struct node *node, struct fuse_attr *attr)
{
	if (node_attr(session, node, attr) < 0)
		*attr = (struct fuse_attr){
			.ino = inode_number(session, node->identity.dev, node->identity.ino),
			.mode = node->identity.type | 0600u,
			.nlink = 1,
			.blksize = 4096,
		};
}

/*
 * The time is wrong on purpose, and not to be kept: the guest's kernel takes it over without
 * dropping pages of the file, but does drop them when it is told the right one thereafter.
 */
static int told_setattr(struct session *session, struct request *request)
{
	struct node *node = request_node(session, request);
	struct fuse_attr_out out = { 0 };

	if (!node)
		return -ESTALE;
	told_attr(session, node, &out.attr);
	out.attr.mtimensec ^= 1;
	return reply(request, &out, sizeof(out));
}

/* A handle without a file: it can be closed, and nothing else. */
static int told_open(struct session *session, struct request *request)
{
	struct node *node = request_node(session, request);
	struct fuse_open_out out = { 0 };

	if (!node)
		return -ESTALE;
	if (!S_ISREG(node->identity.type))
		return -EPERM;
	if (!handles_room(&session->handles))
		return -ENFILE;
	out.fh = handle_add(&session->handles, node, -1, HANDLE_CACHED);
	return reply(request, &out, sizeof(out));
}

static int find_place(struct session *session, struct request *request, struct place *place)
{
	int r;

	*place = (struct place){ .dir = request_node(session, request) };
	if (!place->dir)
		return -ESTALE;
	r = request_name(request, &place->name);
	return r < 0 ? r : changes_place(session, place);
}

/*
 * The guest's kernel looks up what it is about to make or remove. A name of which it knows that it
 * is in use is never denied: that would take mounts beneath it away.
 */
static int lookup_to_make(struct session *session, struct request *request)
{
	struct fuse_entry_out out = { 0 };
	struct place place;
	int r = find_place(session, request, &place);

	if (r == 0 && place.exists && place.was)
		r = entry_lookup(session, place.dir, place.name, &out);
	return r < 0 ? r : reply(request, &out, sizeof(out));
}

static int lookup_to_remove(struct session *session, struct request *request)
{
	struct fuse_entry_out out = { 0 };
	struct place place;
	int r = find_place(session, request, &place);

	if (r == 0 && !place.exists && !place.was)
		place.was = changes_stand_in(
			session, &place,
			request->in.gid == CHANGES_GID_GONE_DIRECTORY ? S_IFDIR : S_IFREG);
	if (r == 0 && place_is_gone(&place)) {
		place.was->lookups++;
		out.nodeid = node_id(place.was);
		out.generation = place.was->generation;
		told_attr(session, place.was, &out.attr);
	} else if (r == 0 && !place.exists) {
		return -ENFILE;
	} else if (r == 0) {
		r = entry_lookup(session, place.dir, place.name, &out);
	}
	return r < 0 ? r : reply(request, &out, sizeof(out));
}

static int told_made(struct session *session, struct request *request)
{
	struct fuse_entry_out out;
	struct place place;
	int r = find_place(session, request, &place);

	if (r == 0)
		r = entry_lookup(session, place.dir, place.name, &out);
	return r < 0 ? r : reply(request, &out, sizeof(out));
}

static int told_gone(struct session *session, struct request *request)
{
	struct place place;
	int r = find_place(session, request, &place);

	if (r < 0)
		return r;
	if (!place_is_gone(&place))
		return place.exists ? -EBUSY : -ENOENT;
	node_unplace(&session->nodes, place.was);
	return 0;
}

/* What is done in each group; all else that is asked for is ordinary. */
static const struct {
	uint32_t opcode, gid;
	int (*serve)(struct session *session, struct request *request);
} told[] = {
	{ FUSE_SETATTR, CHANGES_GID_PRESENT, told_setattr },
	{ FUSE_OPEN, CHANGES_GID_PRESENT, told_open },
	{ FUSE_LOOKUP, CHANGES_GID_MADE, lookup_to_make },
	{ FUSE_MKNOD, CHANGES_GID_MADE, told_made },
	{ FUSE_MKDIR, CHANGES_GID_MADE, told_made },
	{ FUSE_SYMLINK, CHANGES_GID_MADE, told_made },
	{ FUSE_LOOKUP, CHANGES_GID_GONE, lookup_to_remove },
	{ FUSE_LOOKUP, CHANGES_GID_GONE_DIRECTORY, lookup_to_remove },
	{ FUSE_GETATTR, CHANGES_GID_GONE, told_setattr },
	{ FUSE_SETATTR, CHANGES_GID_GONE, told_setattr },
	{ FUSE_UNLINK, CHANGES_GID_GONE, told_gone },
	{ FUSE_RMDIR, CHANGES_GID_GONE, told_gone },
};

bool told_serve(struct session *session, struct request *request, int *result)
{
	if (!session->changes || request->in.pid != session->changes->pid ||
	    request->in.nodeid == FUSE_ROOT_ID)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(told); i++) {
		if (told[i].opcode != request->in.opcode || told[i].gid != request->in.gid)
			continue;
		*result = told[i].serve(session, request);
		return true;
	}
	return false;
}
