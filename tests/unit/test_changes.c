/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file that tells of the host's changes, and those who repeat them: see fs/changes.h. What a
 * kernel makes of it is tested by integration/test_fs.py. */
#include "fuse_client.h"

#include "base/file.h"
#include "base/mem.h"
#include "fs/told.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct fuse_client c;
static uint64_t handle; /* of the file */

static int setup(void **state)
{
	client_open(&c, FS_TREE_SHARED);
	handle = 0;
	return 0;
}

static int teardown(void **state)
{
	client_close(&c);
	return 0;
}

static void host_write(const char *name, const char *text)
{
	int fd = open(client_path(&c, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void host_rename(const char *from, const char *to)
{
	assert_int_equal(rename(client_path(&c, from), client_path(&c, to)), 0);
}

static void read_file(void)
{
	assert_int_equal(client_lookup(&c, FUSE_ROOT_ID, CHANGES_NAME), CHANGES_NODE);
	assert_int_equal(client_open_node(&c, CHANGES_NODE, O_RDONLY, &handle), 0);
}

/* What the file tells, as "path kinds type" for each record. */
static const char *told(void)
{
	static char text[8192];
	const uint8_t *at = client_payload(&c), *end;
	size_t used = 0;
	int r = c.parked ? CLIENT_PARKED : client_read(&c, CHANGES_NODE, handle, 0, 65536);

	if (r == CLIENT_PARKED)
		r = client_wait(&c);
	if (r == CLIENT_PARKED)
		return "";
	assert_int_equal(r, 0);
	text[0] = '\0';
	for (end = at + c.answered; at < end;) {
		const struct change_record *record = (const void *)at;
		const char *path = (const char *)(record + 1);

		assert_true(record->size % 4 == 0 && record->size <= end - at);
		assert_true(strlen(path) < record->size - sizeof(*record));
		if (used < sizeof(text) - 512)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %x %o",
						 used ? ", " : "", path, record->kinds,
						 record->type);
		at += record->size;
	}
	return text;
}

static void as(uint32_t gid)
{
	c.gid = gid;
}

static void changes_are_told(void **state)
{
	struct fs_tree_add add = { .index = 3, .flags = FS_TREE_SHARED };
	struct err err;

	assert_int_equal(mkdir(client_path(&c, "dir"), 0755), 0);
	host_write("dir/file", "text");
	host_write("single", "text");
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, "single"), O_PATH | O_CLOEXEC),
					  &err),
			 0);
	assert_int_not_equal(client_lookup(&c, FUSE_ROOT_ID, "3"), 0);
	read_file();
	assert_int_not_equal(client_lookup(&c, client_lookup(&c, c.tree, "dir"), "file"), 0);
	assert_string_equal(told(), "");
	/* In place: a new content, by one who has closed it since. */
	host_write("dir/file", "other");
	assert_string_equal(told(), "0/dir/file 14 100000");
	assert_int_equal(chmod(client_path(&c, "dir/file"), 0600), 0);
	assert_string_equal(told(), "0/dir/file 8 100000");
	/* Replaced, as editors do: the temporary name has come and gone before it was read. */
	host_write("dir/new", "new");
	host_rename("dir/new", "dir/file");
	assert_string_equal(told(), "0/dir/file 17 100000");
	assert_int_equal(symlink("x", client_path(&c, "dir/link")), 0);
	assert_int_equal(mkdir(client_path(&c, "made"), 0755), 0);
	assert_string_equal(told(), "0/dir/link 2 120000, 0/made 2 40000");
	/* The mounted file, by both its names. */
	host_write("single", "other");
	assert_string_equal(told(), "0/single 14 100000, 3 14 0");
	/* A name that the guest never asked for. */
	assert_int_equal(unlink(client_path(&c, "dir/link")), 0);
	assert_string_equal(told(), "0/dir/link 1 0");
	assert_int_equal(unlink(client_path(&c, "dir/file")), 0);
	assert_int_equal(unlink(client_path(&c, "single")), 0);
	assert_string_equal(told(), "0/dir/file 1 0, 3 8 0, 0/single 1 0");
}

static void gone_is_told_of_what_is_known(void **state)
{
	read_file();
	host_write("file", "text");
	assert_int_not_equal(client_lookup(&c, c.tree, "file"), 0);
	assert_string_equal(told(), "0/file 14 100000");
	host_rename("file", "other");
	assert_string_equal(told(), "0/file 1 0, 0/other 16 100000");
	assert_int_equal(mkdir(client_path(&c, "dir"), 0755), 0);
	assert_int_equal(unlink(client_path(&c, "other")), 0);
	assert_string_equal(told(), "0/dir 2 40000, 0/other 1 0");
	/* What is in a directory goes with it. */
	host_write("dir/known", "");
	host_write("dir/unknown", "");
	assert_int_not_equal(client_lookup(&c, client_lookup(&c, c.tree, "dir"), "known"), 0);
	assert_string_equal(told(), "");
	assert_int_equal(unlink(client_path(&c, "dir/known")), 0);
	assert_int_equal(unlink(client_path(&c, "dir/unknown")), 0);
	assert_int_equal(rmdir(client_path(&c, "dir")), 0);
	assert_string_equal(told(), "0/dir/known 1 0, 0/dir/unknown 1 0, 0/dir 1 40000");
	/* What has come and gone unseen, and what has come back. */
	host_write("short", "");
	assert_int_equal(unlink(client_path(&c, "short")), 0);
	host_write("new", "");
	assert_string_equal(told(), "0/new 12 100000");
	assert_int_equal(unlink(client_path(&c, "new")), 0);
	host_write("new", "");
	assert_string_equal(told(), "0/new 12 100000");
}

/*
 * What the guest has forgotten goes by a node that stands in for it, and is good for nothing else.
 */
static void stand_in_is_no_file(void **state)
{
	struct fuse_setattr_in attr = { .valid = FATTR_SIZE };
	struct fuse_attr seen;
	uint64_t node, again, unused;
	size_t count;

	assert_int_equal(mkdir(client_path(&c, "dir"), 0755), 0);
	host_write("file", "text");
	read_file();
	count = c.session->nodes.count;
	assert_int_equal(rmdir(client_path(&c, "dir")), 0);
	assert_int_equal(unlink(client_path(&c, "file")), 0);
	assert_string_equal(told(), "0/dir 1 40000, 0/file 1 0");
	assert_int_equal(client_lookup(&c, c.tree, "file"), 0);
	as(CHANGES_GID_GONE);
	node = client_lookup(&c, c.tree, "file");
	assert_int_not_equal(node, 0);
	assert_int_equal(client_lookup(&c, c.tree, "file"), node);
	assert_int_equal(client_getattr(&c, node, &seen), 0);
	assert_int_equal(seen.mode, S_IFREG | 0600);
	/* The host makes one of that name: it is another. */
	host_write("file", "other text");
	as(0);
	assert_int_equal(client_getattr(&c, node, &seen), -ESTALE);
	assert_int_equal(client_setattr(&c, node, &attr), -ESTALE);
	assert_int_equal(client_open_node(&c, node, O_RDWR, &unused), -ESTALE);
	again = client_lookup(&c, c.tree, "file");
	assert_true(again && again != node);
	as(CHANGES_GID_GONE);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "file", NULL), -EBUSY);
	as(CHANGES_GID_GONE_DIRECTORY);
	again = client_lookup(&c, c.tree, "dir");
	as(CHANGES_GID_GONE);
	assert_int_equal(client_getattr(&c, again, &seen), 0);
	assert_int_equal(seen.mode, S_IFDIR | 0600);
	assert_int_equal(client_mkdir(&c, again, "below"), 0);
	assert_int_equal(client_name(&c, FUSE_RMDIR, c.tree, NULL, 0, "dir", NULL), 0);
	assert_int_equal(client_name(&c, FUSE_RMDIR, c.tree, NULL, 0, "dir", NULL), -ENOENT);
	client_forget(&c, again, 10);
	client_forget(&c, node, 10);
	as(0);
	client_forget(&c, client_lookup(&c, c.tree, "file"), 10);
	assert_int_equal(c.session->nodes.count, count);
	assert_int_equal(stat(client_path(&c, "file"), &(struct stat){ 0 }), 0);
}

static void own_changes_are_not_told(void **state)
{
	struct fuse_setattr_in mode = { .valid = FATTR_MODE, .mode = 0600 };
	struct fuse_setattr_in size = { .valid = FATTR_SIZE, .size = 3 };
	struct fuse_rename_in to = { .newdir = c.tree };
	struct fuse_release_in release = { 0 };
	uint64_t file;

	read_file();
	file = client_create(&c, c.tree, "own", 0644, &release.fh);
	assert_int_equal(client_write(&c, file, release.fh, 0, "text", 0, 0), 0);
	assert_int_equal(client_setattr(&c, file, &mode), 0);
	assert_int_equal(client_setattr(&c, file, &size), 0);
	assert_int_equal(client_call(&c, FUSE_RELEASE, file, &release, sizeof(release), NULL, 0),
			 0);
	assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "own", "renamed"),
			 0);
	assert_int_not_equal(client_mkdir(&c, c.tree, "dir"), 0);
	assert_int_equal(client_name(&c, FUSE_RMDIR, c.tree, NULL, 0, "dir", NULL), 0);
	assert_string_equal(told(), "");
	/* The host's own change of the same file is, right behind it. */
	assert_int_equal(client_setattr(&c, file, &mode), 0);
	host_write("renamed", "by the host");
	assert_string_equal(told(), "0/renamed 14 100000");
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "renamed", NULL), 0);
	assert_string_equal(told(), "");
}

/* One who watches the top of a tree may never ask for more than it. */
static void tree_is_watched_from_its_lookup_on(void **state)
{
	struct fs_tree_add add = { .index = 3, .flags = FS_TREE_SHARED };
	struct err err;

	assert_int_equal(mkdir(client_path(&c, "dir"), 0755), 0);
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, "dir"), O_PATH | O_CLOEXEC), &err),
			 0);
	read_file();
	assert_int_not_equal(client_lookup(&c, FUSE_ROOT_ID, "3"), 0);
	host_write("dir/file", "text");
	assert_string_equal(told(), "3/file 16 100000");
}

/* Nothing of what is done in the groups reaches the host, whoever does it. */
static void repeating_does_nothing(void **state)
{
	struct fuse_setattr_in attr = { .valid = FATTR_MODE | FATTR_SIZE | FATTR_MTIME };
	struct fuse_mknod_in mknod = { .mode = S_IFREG | 0666 };
	struct fuse_release_in release = { 0 };
	struct fuse_attr seen;
	uint64_t file, old;
	struct stat st;

	read_file();
	host_write("file", "text");
	file = client_lookup(&c, c.tree, "file");
	as(CHANGES_GID_PRESENT);
	assert_int_equal(client_setattr(&c, file, &attr), 0);
	assert_int_equal(client_open_node(&c, file, O_RDWR | O_TRUNC, &release.fh), 0);
	assert_int_equal(client_write(&c, file, release.fh, 0, "other", 0, 0), -EBADF);
	assert_int_equal(client_read(&c, file, release.fh, 0, 10), -EBADF);
	assert_int_equal(client_call(&c, FUSE_RELEASE, file, &release, sizeof(release), NULL, 0),
			 0);
	as(CHANGES_GID_GONE);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "file", NULL), -EBUSY);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "none", NULL), -ENOENT);
	assert_int_equal(client_lookup(&c, c.tree, "file"), file);
	as(CHANGES_GID_MADE);
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &mknod, sizeof(mknod), "new", NULL),
			 -ENOENT);
	assert_int_equal(client_lookup(&c, c.tree, "file"), file);
	assert_int_equal(stat(client_path(&c, "file"), &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_true(st.st_mtime > 0);
	assert_int_equal(access(client_path(&c, "new"), F_OK), -1);
	/* The file that another has replaced goes by its name, the other comes. */
	old = file;
	host_write("tmp", "longer text");
	host_rename("tmp", "file");
	as(CHANGES_GID_GONE);
	assert_int_equal(client_lookup(&c, c.tree, "file"), old);
	assert_int_equal(client_getattr(&c, old, &seen), 0);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "file", NULL), 0);
	as(CHANGES_GID_MADE);
	assert_int_equal(client_lookup(&c, c.tree, "file"), 0);
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &mknod, sizeof(mknod), "file", NULL),
			 0);
	as(0);
	file = client_lookup(&c, c.tree, "file");
	assert_true(file && file != old);
	assert_int_equal(stat(client_path(&c, "file"), &st), 0);
	assert_int_equal(st.st_size, strlen("longer text"));
	/* When nobody reads, the groups are like any others. */
	assert_int_equal(client_call(&c, FUSE_RELEASE, CHANGES_NODE,
				     &(struct fuse_release_in){ .fh = handle }, sizeof(release),
				     NULL, 0),
			 0);
	as(CHANGES_GID_GONE);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "file", NULL), 0);
	assert_int_equal(access(client_path(&c, "file"), F_OK), -1);
}

static void one_reader(void **state)
{
	struct fuse_setattr_in attr = { .valid = FATTR_MTIME };
	struct fuse_link_in link = { .oldnodeid = CHANGES_NODE };
	struct fuse_rename_in to = { .newdir = CHANGES_NODE };
	uint64_t other;

	assert_int_equal(client_lookup(&c, c.tree, CHANGES_NAME), 0);
	assert_int_equal(client_open_node(&c, CHANGES_NODE, O_RDWR, &other), -EPERM);
	assert_int_equal(client_read(&c, CHANGES_NODE, 1, 0, 4096), -EBADF);
	read_file();
	assert_int_equal(client_open_node(&c, CHANGES_NODE, O_RDONLY, &other), -EBUSY);
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), CLIENT_PARKED);
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), -EBUSY);
	assert_int_equal(client_write(&c, CHANGES_NODE, handle, 0, "text", 0, 0), -EPERM);
	assert_int_equal(client_name(&c, FUSE_LOOKUP, CHANGES_NODE, NULL, 0, "x", NULL), -EPERM);
	assert_int_equal(client_name(&c, FUSE_LINK, c.tree, &link, sizeof(link), "x", NULL),
			 -ESTALE);
	host_write("x", "");
	assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "x", "y"), -ESTALE);
	client_forget(&c, CHANGES_NODE, 1000);
	assert_string_equal(told(), "0/x 12 100000");
	/* A change of the file ends one read, whether it waits or comes. */
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), CLIENT_PARKED);
	assert_int_equal(client_wait(&c), CLIENT_PARKED);
	assert_int_equal(client_setattr(&c, CHANGES_NODE, &attr), 0);
	assert_int_equal(client_wait(&c), 0);
	assert_int_equal(c.answered, 0);
	assert_int_equal(client_setattr(&c, CHANGES_NODE, &attr), 0);
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), 0);
	assert_int_equal(c.answered, 0);
	/* No room for what there is to say. */
	host_write("x", "more");
	session_watch(c.session);
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 10), -EINVAL);
	assert_string_equal(told(), "0/x 14 100000");
	/* The guest starts anew: the read that waits is answered, and there are no watches. */
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), CLIENT_PARKED);
	assert_int_equal(client_call(&c, FUSE_DESTROY, 0, NULL, 0, NULL, 0), 0);
	assert_int_equal(c.session->watches.count, 0);
	assert_int_equal(client_wait(&c), -EIO);
}

/* By the descriptor of the queue that it came by, which is closed with that queue. */
static void who_waits_is_woken(void **state)
{
	int kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	eventfd_t count;

	host_write("x", "");
	read_file();
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), CLIENT_PARKED);
	session_park(c.session, kick);
	assert_int_equal(eventfd_read(kick, &count), -1);
	host_write("x", "more");
	session_watch(c.session);
	assert_int_equal(eventfd_read(kick, &count), 0);
	assert_string_not_equal(told(), "");
	/* The next one's is not known yet, and it has missed nothing once it is. */
	eventfd_read(kick, &count); /* told() had looked, too */
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 4096), CLIENT_PARKED);
	host_write("x", "again");
	session_watch(c.session);
	assert_int_equal(eventfd_read(kick, &count), -1);
	session_park(c.session, kick);
	assert_int_equal(eventfd_read(kick, &count), 0);
	assert_string_not_equal(told(), "");
	close(kick);
}

static void watches_are_few(void **state)
{
	struct fs_tree_add add = { .index = 4 };
	char name[32];
	struct err err;
	uint64_t dir, root;

	/* Those of trees that are the container's own, or before anybody reads: none. */
	assert_int_equal(mkdir(client_path(&c, "dir"), 0755), 0);
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, "dir"), O_PATH | O_CLOEXEC), &err),
			 0);
	assert_int_equal(mkdir(client_path(&c, "dir/below"), 0755), 0);
	assert_int_equal(mkdir(client_path(&c, "other"), 0755), 0);
	root = client_lookup(&c, FUSE_ROOT_ID, "4");
	assert_int_not_equal(client_lookup(&c, c.tree, "other"), 0);
	assert_int_equal(c.session->watches.count, 0);
	read_file(); /* what was looked up before is watched, too */
	assert_int_equal(c.session->watches.count, 2);
	assert_int_not_equal(client_lookup(&c, root, "below"), 0);
	assert_int_equal(c.session->watches.count, 2);
	dir = client_lookup(&c, c.tree, "dir");
	assert_int_equal(c.session->watches.count, 3);
	client_forget(&c, dir, 1);
	assert_int_equal(c.session->watches.count, 2);
	/* The host removes one that is watched: the kernel takes the watch away. */
	dir = client_lookup(&c, c.tree, "other");
	assert_int_equal(c.session->watches.count, 2);
	assert_int_equal(rmdir(client_path(&c, "other")), 0);
	assert_string_equal(told(), "0/other 1 40000");
	client_forget(&c, dir, 100);
	assert_int_equal(c.session->watches.count, 1);
	/* More names than are kept: the first ones are told, and then others again. */
	for (unsigned int i = 0; i < CHANGES_MAX + 100; i++) {
		snprintf(name, sizeof(name), "%0*u", 20, i);
		host_write(name, "");
	}
	session_watch(c.session);
	assert_int_equal(c.session->changes->count, CHANGES_MAX);
	assert_int_equal(client_read(&c, CHANGES_NODE, handle, 0, 65536), 0);
	assert_int_equal(c.answered, CHANGES_MAX * 32);
	assert_int_equal(c.session->changes->count, 0);
	host_write(name, "");
	assert_string_equal(told(), "0/00000000000000001123 14 100000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(changes_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(gone_is_told_of_what_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(stand_in_is_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(tree_is_watched_from_its_lookup_on, setup,
						teardown),
		cmocka_unit_test_setup_teardown(own_changes_are_not_told, setup, teardown),
		cmocka_unit_test_setup_teardown(repeating_does_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(one_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_is_woken, setup, teardown),
		cmocka_unit_test_setup_teardown(watches_are_few, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
