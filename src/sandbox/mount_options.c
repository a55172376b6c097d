/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mount options: one table of names and what each one does. */
#include "sandbox/mount_options.h"

#include "base/fd.h"
#include "base/str.h"
#include "oci/config.h"

#include <sys/mount.h>

enum option_kind {
	OPTION_NONE,	  /* says what is so anyway */
	OPTION_SET,	  /* attribute on */
	OPTION_CLEAR,	  /* attribute off */
	OPTION_ATIME,	  /* one value of a field of several bits */
	OPTION_PROPAGATE, /* value: MS_* */
	OPTION_BIND,
	OPTION_REMOUNT,
	OPTION_COPY_UP,
	OPTION_SUPERBLOCK, /* for the file system as a whole, passed on to it */
	OPTION_IDMAP,
};

static const struct mount_option {
	const char *name;
	enum option_kind kind;
	bool recursive;
	uint64_t value;
} options[] = {
	{ "acl", OPTION_SUPERBLOCK, false, 0 },
	{ "async", OPTION_NONE, false, 0 },
	{ "atime", OPTION_ATIME, false, MOUNT_ATTR_RELATIME },
	{ "bind", OPTION_BIND, false, 0 },
	{ "defaults", OPTION_NONE, false, 0 },
	{ "dev", OPTION_CLEAR, false, MOUNT_ATTR_NODEV },
	{ "diratime", OPTION_CLEAR, false, MOUNT_ATTR_NODIRATIME },
	{ "dirsync", OPTION_SUPERBLOCK, false, 0 },
	{ "exec", OPTION_CLEAR, false, MOUNT_ATTR_NOEXEC },
	{ "idmap", OPTION_IDMAP, false, 0 },
	{ "iversion", OPTION_SUPERBLOCK, false, 0 },
	{ "lazytime", OPTION_SUPERBLOCK, false, 0 },
	{ "loud", OPTION_NONE, false, 0 },
	{ "mand", OPTION_SUPERBLOCK, false, 0 },
	{ "noacl", OPTION_SUPERBLOCK, false, 0 },
	{ "noatime", OPTION_ATIME, false, MOUNT_ATTR_NOATIME },
	{ "nodev", OPTION_SET, false, MOUNT_ATTR_NODEV },
	{ "nodiratime", OPTION_SET, false, MOUNT_ATTR_NODIRATIME },
	{ "noexec", OPTION_SET, false, MOUNT_ATTR_NOEXEC },
	{ "noiversion", OPTION_SUPERBLOCK, false, 0 },
	{ "nolazytime", OPTION_SUPERBLOCK, false, 0 },
	{ "nomand", OPTION_NONE, false, 0 },
	{ "norelatime", OPTION_ATIME, false, MOUNT_ATTR_STRICTATIME },
	{ "nostrictatime", OPTION_ATIME, false, MOUNT_ATTR_RELATIME },
	{ "nosuid", OPTION_SET, false, MOUNT_ATTR_NOSUID },
	{ "nosymfollow", OPTION_SET, false, MOUNT_ATTR_NOSYMFOLLOW },
	{ "private", OPTION_PROPAGATE, false, MS_PRIVATE },
	{ "ratime", OPTION_ATIME, true, MOUNT_ATTR_RELATIME },
	{ "rbind", OPTION_BIND, true, 0 },
	{ "rdev", OPTION_CLEAR, true, MOUNT_ATTR_NODEV },
	{ "rdiratime", OPTION_CLEAR, true, MOUNT_ATTR_NODIRATIME },
	{ "relatime", OPTION_ATIME, false, MOUNT_ATTR_RELATIME },
	{ "remount", OPTION_REMOUNT, false, 0 },
	{ "rexec", OPTION_CLEAR, true, MOUNT_ATTR_NOEXEC },
	{ "ridmap", OPTION_IDMAP, true, 0 },
	{ "rnoatime", OPTION_ATIME, true, MOUNT_ATTR_NOATIME },
	{ "rnodev", OPTION_SET, true, MOUNT_ATTR_NODEV },
	{ "rnodiratime", OPTION_SET, true, MOUNT_ATTR_NODIRATIME },
	{ "rnoexec", OPTION_SET, true, MOUNT_ATTR_NOEXEC },
	{ "rnorelatime", OPTION_ATIME, true, MOUNT_ATTR_STRICTATIME },
	{ "rnostrictatime", OPTION_ATIME, true, MOUNT_ATTR_RELATIME },
	{ "rnosuid", OPTION_SET, true, MOUNT_ATTR_NOSUID },
	{ "rnosymfollow", OPTION_SET, true, MOUNT_ATTR_NOSYMFOLLOW },
	{ "ro", OPTION_SET, false, MOUNT_ATTR_RDONLY },
	{ "rprivate", OPTION_PROPAGATE, true, MS_PRIVATE },
	{ "rrelatime", OPTION_ATIME, true, MOUNT_ATTR_RELATIME },
	{ "rro", OPTION_SET, true, MOUNT_ATTR_RDONLY },
	{ "rrw", OPTION_CLEAR, true, MOUNT_ATTR_RDONLY },
	{ "rshared", OPTION_PROPAGATE, true, MS_SHARED },
	{ "rslave", OPTION_PROPAGATE, true, MS_SLAVE },
	{ "rstrictatime", OPTION_ATIME, true, MOUNT_ATTR_STRICTATIME },
	{ "rsuid", OPTION_CLEAR, true, MOUNT_ATTR_NOSUID },
	{ "rsymfollow", OPTION_CLEAR, true, MOUNT_ATTR_NOSYMFOLLOW },
	{ "runbindable", OPTION_PROPAGATE, true, MS_UNBINDABLE },
	{ "rw", OPTION_CLEAR, false, MOUNT_ATTR_RDONLY },
	{ "shared", OPTION_PROPAGATE, false, MS_SHARED },
	{ "silent", OPTION_NONE, false, 0 },
	{ "slave", OPTION_PROPAGATE, false, MS_SLAVE },
	{ "strictatime", OPTION_ATIME, false, MOUNT_ATTR_STRICTATIME },
	{ "suid", OPTION_CLEAR, false, MOUNT_ATTR_NOSUID },
	{ "symfollow", OPTION_CLEAR, false, MOUNT_ATTR_NOSYMFOLLOW },
	{ "sync", OPTION_SUPERBLOCK, false, 0 },
	{ "tmpcopyup", OPTION_COPY_UP, false, 0 },
	{ "unbindable", OPTION_PROPAGATE, false, MS_UNBINDABLE },
};

static const struct mount_option *find(const char *name)
{
	size_t low = 0, high = ARRAY_LEN(options);

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(name, options[middle].name);

		if (order == 0)
			return &options[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* A later option takes back what an earlier one said. */
static void set_attributes(struct mount_options *o, const struct mount_option *option)
{
	uint64_t *set = option->recursive ? &o->recursive_set : &o->set;
	uint64_t *clear = option->recursive ? &o->recursive_clear : &o->clear;

	switch (option->kind) {
	case OPTION_SET:
		*set |= option->value;
		*clear &= ~option->value;
		break;
	case OPTION_CLEAR:
		*clear |= option->value;
		*set &= ~option->value;
		break;
	default: /* the kernel wants the whole field cleared to set a value of it */
		*clear |= MOUNT_ATTR__ATIME;
		*set = (*set & ~(uint64_t)MOUNT_ATTR__ATIME) | option->value;
	}
}

static int apply(struct mount_options *o, const char *name, struct err *err)
{
	const struct mount_option *option = find(name);

	if (!option || option->kind == OPTION_SUPERBLOCK) {
		o->data[o->n_data++] = name;
		return 0;
	}
	switch (option->kind) {
	case OPTION_PROPAGATE:
		o->propagation = option->value;
		o->propagation_recursive = option->recursive;
		break;
	case OPTION_BIND:
		o->bind = true;
		o->bind_recursive |= option->recursive;
		break;
	case OPTION_REMOUNT:
		o->remount = true;
		break;
	case OPTION_COPY_UP:
		o->copy_up = true;
		break;
	case OPTION_IDMAP:
		o->idmap = true;
		o->idmap_recursive |= option->recursive;
		break;
	case OPTION_SET:
	case OPTION_CLEAR:
	case OPTION_ATIME:
		set_attributes(o, option);
		break;
	default:
		break;
	}
	return 0;
}

int mount_options_read(const struct oci_mount *mount, struct mount_options *o, struct err *err)
{
	*o = (struct mount_options){ .source = -1, .sealed = -1 };
	o->data = xcalloc(mount->n_options + 1, sizeof(*o->data));
	for (size_t i = 0; i < mount->n_options; i++)
		if (apply(o, mount->options[i], err) < 0)
			return err_wrap(err, "mount %s", mount->destination);
	if (mount->type && str_eq(mount->type, "bind") && !o->remount)
		o->bind = true;
	o->idmap |= mount->n_uid_mappings || mount->n_gid_mappings;
	if (o->idmap && !o->bind)
		return err_set(err, 0, "mount %s: only a bind mount can have its ids mapped",
			       mount->destination);
	if (o->bind && o->n_data)
		return err_set(err, 0, "mount %s: unknown option '%s' for a bind mount",
			       mount->destination, o->data[0]);
	if (o->bind && !mount->source)
		return err_set(err, 0, "mount %s: a bind mount needs a source", mount->destination);
	if (!o->bind && !o->remount && !mount->type)
		return err_set(err, 0,
			       "mount %s: neither a type nor a bind mount: give it a type, or "
			       "\"bind\" among "
			       "its options",
			       mount->destination);
	if (o->copy_up && (o->bind || !mount->type || !str_eq(mount->type, "tmpfs")))
		return err_set(err, 0, "mount %s: tmpcopyup is for tmpfs only", mount->destination);
	return 0;
}

void mount_options_free(struct mount_options *o)
{
	free(o->data);
	o->data = NULL;
	fd_replace(&o->source, -1);
	fd_replace(&o->sealed, -1);
}

const char *const *mount_option_names(void)
{
	static const char *names[ARRAY_LEN(options) + 1];
	size_t n = 0;

	if (!names[0])
		for (size_t i = 0; i < ARRAY_LEN(options); i++)
			names[n++] = options[i].name;
	return names;
}
