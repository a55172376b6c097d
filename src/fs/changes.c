/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the host changed, until the guest's agent has read it. Names are gathered as inotify gives
 * them; what became of them is looked at only when they are read, as by then they may be many
 * events further.
 */
#include "fs/told.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define CHANGES_HANDLE 1u
#define CHANGES_INODE  (TOP_INODE - 1)

static uint32_t place_hash(const struct node *dir, const char *name)
{
	uint32_t hash = 0x811c9dc5u ^ dir->index;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x01000193u;
	return hash;
}

static void changes_attr(const struct session *session, struct fuse_attr *attr)
{
	top_attr(session, attr);
	attr->ino = CHANGES_INODE;
	attr->mode = S_IFREG | 0600;
	attr->nlink = 1;
}

int changes_lookup(const struct session *session, const char *name, struct fuse_entry_out *out)
{
	if (session->watches.fd < 0 || strcmp(name, CHANGES_NAME) != 0)
		return -ENOENT;
	*out = (struct fuse_entry_out){ .nodeid = CHANGES_NODE, .entry_valid = 1, .attr_valid = 1 };
	changes_attr(session, &out->attr);
	return 0;
}

void changes_see(struct session *session, struct node *node)
{
	int fd;

	if (node_is_top(node) || !watch_wanted(&session->watches, node) ||
	    !(session->trees[node->identity.tree].flags & FS_TREE_SHARED))
		return;
	if (!S_ISDIR(node->identity.type) && node != session->trees[node->identity.tree].root)
		return;
	fd = node_fd(&session->nodes, node);
	if (fd >= 0)
		watch_add(&session->watches, node, fd);
}

void changes_know(struct session *session, const struct node *node)
{
	if (session->changes && node->parent)
		session->changes->known[place_hash(node->parent, node->name) % CHANGES_KNOWN] =
			node_id(node);
}

static struct node *known_at(struct session *session, const struct place *place)
{
	uint32_t slot = place_hash(place->dir, place->name) % CHANGES_KNOWN;
	struct node *node = node_get(&session->nodes, session->changes->known[slot]);

	if (!node || !node_is_at(node, place->dir, place->name))
		node = place->is; /* its slot may be another's by now */
	return node && node->lookups && node_is_at(node, place->dir, place->name) ? node : NULL;
}

int changes_place(struct session *session, struct place *place)
{
	struct identity identity;
	struct statx stx;
	int fd = node_fd(&session->nodes, place->dir);

	if (fd < 0 && fd != -ESTALE && fd != -ENOENT)
		return fd;
	place->is = NULL;
	/* With their directory all names in it are gone. */
	place->exists = fd >= 0 && statx(fd, place->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
					 NODE_STATX, &stx) == 0;
	if (place->exists) {
		identity = identity_of(&stx, place->dir->identity.tree);
		place->is = node_find(&session->nodes, &identity);
		place->type = identity.type;
	}
	place->was = known_at(session, place);
	return 0;
}

struct node *changes_stand_in(struct session *session, const struct place *place, uint16_t type)
{
	struct identity identity = { .ino = ++session->changes->stand_ins,
				     .mount = UINT64_MAX,
				     .dev = place->dir->identity.dev,
				     .tree = place->dir->identity.tree,
				     .type = type };
	struct node *node = node_add(&session->nodes, &identity);

	if (!node)
		return NULL;
	node_place(&session->nodes, node, place->dir, place->name);
	changes_know(session, node);
	return node;
}

static int changes_open(struct session *session, struct request *request,
			const struct fuse_open_in *in)
{
	struct fuse_open_out out = { .fh = CHANGES_HANDLE, .open_flags = FOPEN_DIRECT_IO };
	struct node *node;
	uint32_t at = 0;

	if (session->changes)
		return -EBUSY;
	if ((in->flags & O_ACCMODE) != O_RDONLY)
		return -EPERM;
	session->changes = xcalloc(1, sizeof(*session->changes));
	session->changes->pid = request->in.pid;
	session->watches.on = true;
	while ((node = nodes_next(&session->nodes, &at))) {
		session->nodes.request++;
		changes_know(session, node);
		changes_see(session, node);
	}
	return reply(request, &out, sizeof(out));
}

void changes_stop(struct session *session)
{
	session->watches.on = false;
	watches_remove_all(&session->watches);
	free(session->changes);
	session->changes = NULL;
}

static uint32_t kinds_of(uint32_t mask)
{
	return (mask & (IN_CREATE | IN_MOVED_TO) ? CHANGE_MADE : 0u) |
	       (mask & (IN_DELETE | IN_MOVED_FROM) ? CHANGE_GONE : 0u) |
	       (mask & (IN_MODIFY | IN_MOVED_TO) ? CHANGE_CONTENT : 0u) |
	       (mask & (IN_CLOSE_WRITE | IN_MOVED_TO) ? CHANGE_CLOSED : 0u) |
	       (mask & IN_ATTRIB ? CHANGE_ATTRIBUTES : 0u);
}

void changes_gather(void *data, struct node *dir, const char *name, uint32_t mask)
{
	struct session *session = data;
	struct changes *changes = session->changes;
	uint32_t hash = place_hash(dir, name), i = 0;
	uint64_t id = node_id(dir);
	struct change *change;

	while (i < changes->count && (changes->hashes[i] != hash || changes->pending[i].dir != id ||
				      strcmp(changes->pending[i].name, name) != 0))
		i++;
	if (i == CHANGES_MAX)
		return;
	change = &changes->pending[i];
	if (i == changes->count) {
		changes->count++;
		changes->hashes[i] = hash;
		*change = (struct change){ .dir = id };
		snprintf(change->name, sizeof(change->name), "%s", name);
	}
	change->kinds |= kinds_of(mask);
	if (mask & (IN_DELETE | IN_MOVED_FROM))
		change->was_directory = mask & IN_ISDIR;
}

void changes_take(struct session *session)
{
	if (session->changes)
		watches_read(&session->watches);
}

bool changes_are_there(const struct session *session)
{
	const struct changes *changes = session->changes;

	return !changes || changes->count || changes->cancelled;
}

/* Its path from the end of `path` on; NULL where it is too long, or in no place. */
static char *write_path(struct session *session, const struct node *dir, const char *name,
			char path[PATH_MAX])
{
	char number[16], *at = path + PATH_MAX - 1;
	const char *part = name;

	*at = '\0';
	for (;;) {
		size_t length = strlen(part);

		if ((size_t)(at - path) < length + 1)
			return NULL;
		at -= length;
		memcpy(at, part, length);
		if (part == number)
			return at;
		if (length)
			*--at = '/';
		if (dir->parent) {
			part = dir->name;
			dir = dir->parent;
		} else if (dir == session->trees[dir->identity.tree].root) {
			snprintf(number, sizeof(number), "%u", dir->identity.tree);
			part = number;
		} else {
			return NULL;
		}
	}
}

/* What there is to say of a name, seen as it is now. */
static uint32_t kinds_now(uint32_t kinds, const struct place *place)
{
	bool made = kinds & CHANGE_MADE, gone = kinds & CHANGE_GONE;

	kinds &= ~(uint32_t)(CHANGE_GONE | CHANGE_MADE);
	if (!place->exists) /* what has come and gone between two reads was never there */
		return place->was || (gone && !made) ? CHANGE_GONE : 0;
	if (place_is_gone(place))
		return kinds | CHANGE_GONE | CHANGE_MADE;
	if (place->was) /* made anew it may have got the number of the one that it was */
		return kinds | (made ? CHANGE_CONTENT : 0);
	return kinds | (made ? CHANGE_MADE : 0);
}

/* Fills one record in; its path begins at *at. False where there is nothing to say. */
static bool describe(struct session *session, const struct change *change,
		     struct change_record *record, char path[PATH_MAX], char **at)
{
	struct place place = { .dir = node_get(&session->nodes, change->dir),
			       .name = change->name };

	session->nodes.request++; /* no descriptor is held for longer than this: see node_fd() */
	*record = (struct change_record){ .kinds = (uint16_t)change->kinds };
	if (!place.dir)
		return false;
	*at = write_path(session, place.dir, change->name, path);
	if (!*at || !*change->name)
		return *at;
	if (changes_place(session, &place) < 0)
		return false;
	record->kinds = (uint16_t)kinds_now(change->kinds, &place);
	record->type = place.exists ? place.type : change->was_directory ? S_IFDIR : 0;
	return record->kinds;
}

static int changes_read(struct session *session, struct request *request,
			const struct fuse_read_in *in)
{
	struct changes *changes = session->changes;
	size_t room = request->chain->writable_size - sizeof(struct fuse_out_header), used = 0;
	char path[PATH_MAX + 4], *at;
	uint32_t told = 0;

	if (room > in->size)
		room = in->size;
	for (; told < changes->count; told++) {
		struct change_record record;
		size_t length, size;

		if (!describe(session, &changes->pending[told], &record, path, &at))
			continue;
		length = strlen(at) + 1;
		size = (sizeof(record) + length + 3) & ~(size_t)3;
		if (size > room - used)
			break;
		record.size = (uint16_t)size;
		reply(request, &record, sizeof(record));
		reply(request, at, length);
		reply(request, "\0\0\0", size - sizeof(record) - length);
		used += size;
	}
	if (!used && told < changes->count)
		return -EINVAL; /* not even one fits */
	changes->count -= told;
	memmove(changes->pending, changes->pending + told,
		changes->count * sizeof(changes->pending[0]));
	memmove(changes->hashes, changes->hashes + told,
		changes->count * sizeof(changes->hashes[0]));
	if (!used && !changes->cancelled) {
		session->parked = true;
		return OPERATION_PARKED;
	}
	changes->cancelled = changes->cancelled && used;
	return (int)used;
}

static int reply_attr(struct session *session, struct request *request)
{
	struct fuse_attr_out out = { .attr_valid = 1 };

	changes_attr(session, &out.attr);
	return reply(request, &out, sizeof(out));
}

static int changes_file(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_read_in *in = arg; /* begins as fuse_release_in does: with the handle */
	struct changes *changes = session->changes;

	if (!changes || in->fh != CHANGES_HANDLE)
		return -EBADF;
	if (request->in.opcode == FUSE_READ)
		return session->parked ? -EBUSY : changes_read(session, request, in);
	changes_stop(session);
	return 0;
}

int changes_serve(struct session *session, struct request *request, const void *arg)
{
	switch (request->in.opcode) {
	case FUSE_OPEN:
		return changes_open(session, request, arg);
	case FUSE_READ:
	case FUSE_RELEASE:
		return changes_file(session, request, arg);
	case FUSE_SETATTR:
		if (session->changes)
			session->changes->cancelled = true;
		return reply_attr(session, request);
	case FUSE_GETATTR:
		return reply_attr(session, request);
	case FUSE_FORGET:
		return 0;
	default:
		return -EPERM;
	}
}
