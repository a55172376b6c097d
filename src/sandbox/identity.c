/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Users and groups by the container's own files (passwd(5), group(5)). */
#include "sandbox/identity.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#define FILE_MAX   (1u << 20)
#define FIELDS_MAX 7
#define GROUPS_MAX 65536 /* NGROUPS_MAX */

/* (uid_t)-1 means "leave it" to system calls: nobody may have it. */
#define ID_MAX (UINT32_MAX - 1)

/*
 * @why: set to what is wrong with the file, to be put after "the container's /etc/passwd".
 * Returns NULL where it cannot be read.
 */
static char *read_database(int rootfd, const char *path, const char **why)
{
	/* Non-blocking: it may be a fifo. */
	_cleanup_fd_ int fd =
		path_open_in_root(rootfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, 0, NULL);
	struct stat st;
	char *text;

	*why = errno == ENOENT ? "is not there" : errno == ENXIO ? "is no regular file" : NULL;
	if (fd < 0 && !*why)
		*why = "cannot be opened";
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	*why = "is no regular file";
	if (!S_ISREG(st.st_mode))
		return NULL;
	text = fd_read_text(fd, FILE_MAX, NULL);
	*why = text ? "does not have it" : errno == EFBIG ? "is too large" : "cannot be read";
	return text;
}

/* Splits the next line in place; false at the end. Fields that are missing are NULL. */
static bool next_entry(char **text, char *fields[FIELDS_MAX])
{
	char *line = strsep(text, "\n");

	if (!line)
		return false;
	for (size_t i = 0; i < FIELDS_MAX; i++)
		fields[i] = line ? strsep(&line, ":") : NULL;
	return true;
}

static bool parse_id(const char *text, uint32_t *id)
{
	uint64_t number;

	if (!text || str_to_u64(text, ID_MAX, &number) < 0)
		return false;
	*id = (uint32_t)number;
	return true;
}

/* Whether an entry is the one asked for, by name or, where the text is a number, by that. */
static bool is_entry(char *const fields[FIELDS_MAX], const char *text, uint32_t *id)
{
	uint32_t wanted;

	if (!fields[0] || !parse_id(fields[2], id))
		return false;
	return str_eq(fields[0], text) || (parse_id(text, &wanted) && wanted == *id);
}

/* @name: set to the user's name, to be freed, where there is an entry; else NULL. */
static int look_up_user(int rootfd, const char *text, struct identity *identity, char **name,
			struct err *err)
{
	const char *why;
	_cleanup_free_ char *file = read_database(rootfd, "etc/passwd", &why);
	char *rest = file, *fields[FIELDS_MAX];

	while (next_entry(&rest, fields)) {
		if (!is_entry(fields, text, &identity->uid) || !parse_id(fields[3], &identity->gid))
			continue;
		*name = xstrdup(fields[0]);
		return 0;
	}
	if (!parse_id(text, &identity->uid))
		return err_set(err, 0, "find user '%.64s': the container's /etc/passwd %s", text,
			       why);
	identity->gid = 0;
	return 0;
}

static int look_up_group(int rootfd, const char *text, uint32_t *gid, struct err *err)
{
	const char *why;
	_cleanup_free_ char *file = read_database(rootfd, "etc/group", &why);
	char *rest = file, *fields[FIELDS_MAX];

	while (next_entry(&rest, fields))
		if (is_entry(fields, text, gid))
			return 0;
	if (!parse_id(text, gid))
		return err_set(err, 0, "find group '%.64s': the container's /etc/group %s", text,
			       why);
	return 0;
}

static bool is_member(char *members, const char *name)
{
	char *member;

	while ((member = strsep(&members, ",")))
		if (str_eq(member, name))
			return true;
	return false;
}

static void collect_groups(int rootfd, const char *name, struct identity *identity)
{
	const char *why;
	_cleanup_free_ char *file = read_database(rootfd, "etc/group", &why);
	char *rest = file, *fields[FIELDS_MAX];
	uint32_t gid;

	while (next_entry(&rest, fields) && identity->n_groups < GROUPS_MAX) {
		if (!fields[3] || !parse_id(fields[2], &gid) || !is_member(fields[3], name))
			continue;
		identity->groups = xrealloc(identity->groups, identity->n_groups + 1,
					    sizeof(*identity->groups));
		identity->groups[identity->n_groups++] = gid;
	}
}

int identity_look_up(int rootfd, const char *text, struct identity *identity, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(text), *name = NULL;
	char *group = strchr(copy, ':');

	*identity = (struct identity){ 0 };
	if (group)
		*group++ = '\0';
	if (!*copy || (group && (!*group || strchr(group, ':'))))
		return err_set(err, 0, "expected USER or USER:GROUP, found '%.64s'", text);
	if (look_up_user(rootfd, copy, identity, &name, err) < 0)
		return -1;
	if (group)
		return look_up_group(rootfd, group, &identity->gid, err);
	if (name)
		collect_groups(rootfd, name, identity);
	return 0;
}

char *identity_home(int rootfd, uint32_t uid)
{
	const char *why;
	_cleanup_free_ char *file = read_database(rootfd, "etc/passwd", &why);
	char *rest = file, *fields[FIELDS_MAX];
	uint32_t its;

	while (next_entry(&rest, fields))
		if (parse_id(fields[2], &its) && its == uid && fields[5] && *fields[5] == '/')
			return xstrdup(fields[5]);
	return xstrdup("/");
}
