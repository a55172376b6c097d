/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended attributes, ACLs among them. Of what the guest names, only known name spaces go to the
 * host, where trusted.* and most of security.* are refused to a server without CAP_SYS_ADMIN.
 */
#include "fs/session.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

static bool is_acl(const char *name)
{
	return str_eq(name, ACL_ACCESS) || str_eq(name, ACL_DEFAULT);
}

/* The path to a node, for calls that take no O_PATH descriptor. */
static int node_path(struct session *session, struct node *node, char path[FD_PATH_MAX])
{
	int fd = node_fd(&session->nodes, node);

	if (fd < 0)
		return fd;
	fd_path(fd, path);
	return 0;
}

static int attribute_name(struct request *request, const char **name)
{
	static const char *const spaces[] = { "user.", "security.", "trusted." };
	const char *text = request_string(request);

	if (!text || !*text)
		return -EINVAL;
	if (strlen(text) > XATTR_NAME_MAX)
		return -ERANGE;
	*name = text;
	if (is_acl(text))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
		if (str_starts_with(text, spaces[i]))
			return 0;
	return -EOPNOTSUPP;
}

/* setxattr() of an ACL by one who may not keep the set-group-id bit. */
static int drop_set_group_id(const char *path, int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MODE, &stx) < 0)
		return -errno;
	if (!(stx.stx_mode & S_ISGID))
		return 0;
	return fchmodat(AT_FDCWD, path, stx.stx_mode & ALLPERMS & ~S_ISGID, 0) < 0 ? -errno : 0;
}

int op_setxattr(struct session *session, struct request *request, const void *arg)
{
	struct fuse_setxattr_in in = { 0 };
	struct node *node = request_node(session, request);
	char path[FD_PATH_MAX];
	const char *name;
	int r;

	memcpy(&in, arg, FUSE_COMPAT_SETXATTR_IN_SIZE);
	if (session->agreed & FUSE_SETXATTR_EXT) {
		size_t rest = sizeof(in) - FUSE_COMPAT_SETXATTR_IN_SIZE;

		if (request->text_size < rest)
			return -EINVAL;
		memcpy(&in.setxattr_flags, request->text, rest);
		request->text += rest;
		request->text_size -= rest;
	}
	if (!node)
		return -ESTALE;
	r = node_writable(session, node);
	if (r == 0)
		r = attribute_name(request, &name);
	if (r == 0 && (in.size != request->text_size || in.size > XATTR_SIZE_MAX))
		r = -EINVAL;
	if (r == 0)
		r = node_path(session, node, path);
	if (r < 0)
		return r;
	creds_keep_set_id(&request->worker->creds, true);
	watch_own_node(&session->watches, node);
	if (setxattr(path, name, request->text, in.size, (int)in.flags) < 0)
		return -errno;
	if (in.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID && str_eq(name, ACL_ACCESS))
		return drop_set_group_id(path, node->fd);
	return 0;
}

/* Answers with a value, or with its size where the guest asked with no room (getxattr(2)). */
static int reply_value(struct request *request, ssize_t n, const void *value, uint32_t room)
{
	struct fuse_getxattr_out out = { 0 };

	if (n < 0)
		return -errno;
	if (room)
		return n > (ssize_t)room ? -ERANGE : reply(request, value, (size_t)n);
	out.size = (uint32_t)n;
	return reply(request, &out, sizeof(out));
}

int op_getxattr(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_getxattr_in *in = arg;
	struct node *node = request_node(session, request);
	char value_path[FD_PATH_MAX], name_copy[XATTR_NAME_MAX + 1];
	const char *name;
	ssize_t n;
	int r;

	if (!node)
		return -ESTALE;
	r = attribute_name(request, &name);
	if (r == 0 && node_is_top(node))
		r = -ENODATA;
	if (r == 0)
		r = node_path(session, node, value_path);
	if (r < 0)
		return r;
	memcpy(name_copy, name, strlen(name) + 1); /* the value goes where the name came from */
	n = getxattr(value_path, name_copy, in->size ? request->worker->scratch : NULL,
		     in->size ? XATTR_SIZE_MAX : 0);
	/* To the guest kernel an error here is a file that cannot be used at all. */
	if (n < 0 && errno == EOPNOTSUPP && is_acl(name_copy))
		return -ENODATA;
	return reply_value(request, n, request->worker->scratch, in->size);
}

int op_listxattr(struct session *session, struct request *request, const void *arg)
{
	const struct fuse_getxattr_in *in = arg;
	struct node *node = request_node(session, request);
	char path[FD_PATH_MAX];
	ssize_t n;
	int r;

	if (!node)
		return -ESTALE;
	if (node_is_top(node))
		return reply_value(request, 0, "", in->size);
	r = node_path(session, node, path);
	if (r < 0)
		return r;
	n = listxattr(path, in->size ? (char *)request->worker->scratch : NULL,
		      in->size ? XATTR_LIST_MAX : 0);
	return reply_value(request, n, request->worker->scratch, in->size);
}

int op_removexattr(struct session *session, struct request *request, const void *arg)
{
	struct node *node = request_node(session, request);
	char path[FD_PATH_MAX];
	const char *name;
	int r;

	if (!node)
		return -ESTALE;
	r = node_writable(session, node);
	if (r == 0)
		r = attribute_name(request, &name);
	if (r == 0)
		r = node_path(session, node, path);
	if (r < 0)
		return r;
	watch_own_node(&session->watches, node);
	return removexattr(path, name) < 0 ? -errno : 0;
}
