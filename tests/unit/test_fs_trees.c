/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file server's session, its trees and directories: what a guest is told is there, and how much
 * of it at once.
 */
#include "fs_expect.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct fuse_client c;

static int setup(void **state)
{
	client_open(&c, 0);
	return 0;
}

static int teardown(void **state)
{
	client_close(&c);
	return 0;
}

static void init_negotiates(void **state)
{
	const struct fuse_init_out *out = client_payload(&c);
	struct fuse_init_in in = { .major = 8, .minor = 0 };

	/* A newer major version: ours is named, and the session has not begun. */
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &in, sizeof(in), NULL, 0), 0);
	assert_int_equal(out->major, FUSE_KERNEL_VERSION);
	assert_int_equal(client_getattr(&c, FUSE_ROOT_ID, NULL), -EIO);
	in = (struct fuse_init_in){ .major = 7, .minor = 30 };
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &in, sizeof(in), NULL, 0), -EPROTO);
	in = (struct fuse_init_in){ .major = 7, .minor = 31, .flags = FUSE_MAX_PAGES };
	/* As a kernel before INIT_EXT sends it. */
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &in, 16, NULL, 0), 0);
	assert_int_equal(out->flags, FUSE_MAX_PAGES);
	in.flags = ~0u;
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &in, sizeof(in), NULL, 0), 0);
	assert_false(out->flags & (FUSE_WRITEBACK_CACHE | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS));
	assert_true(out->flags & FUSE_HANDLE_KILLPRIV_V2);
	assert_int_equal(out->max_write, 1 << 20);
	/* What the guest had before is forgotten. */
	assert_int_equal(client_getattr(&c, c.tree, NULL), -ESTALE);
	assert_int_equal(client_call(&c, FUSE_DESTROY, 0, NULL, 0, NULL, 0), 0);
	assert_int_equal(client_getattr(&c, FUSE_ROOT_ID, NULL), -EIO);
}

static void top_directory(void **state)
{
	struct fuse_read_in in = { .size = 4096 };
	struct fuse_attr attr;
	uint64_t handle;

	assert_int_equal(client_getattr(&c, FUSE_ROOT_ID, &attr), 0);
	assert_int_equal(attr.mode, S_IFDIR | 0555);
	for (size_t i = 0; i < 6; i++) {
		static const char *const none[] = { "1", "00", "+0", "-1", "1024", "a" };

		assert_int_equal(client_name(&c, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, none[i], NULL),
				 -ENOENT);
	}
	assert_int_equal(client_open_node(&c, FUSE_ROOT_ID, O_DIRECTORY, &handle), 0);
	in.fh = handle;
	assert_int_equal(client_call(&c, FUSE_READDIR, FUSE_ROOT_ID, &in, sizeof(in), NULL, 0), 0);
	assert_int_equal(c.answered, 3 * 32); /* ".", "..", "0" */
	in.offset = 3;
	assert_int_equal(client_call(&c, FUSE_READDIR, FUSE_ROOT_ID, &in, sizeof(in), NULL, 0), 0);
	assert_int_equal(c.answered, 0);
	assert_int_equal(client_mkdir(&c, FUSE_ROOT_ID, "7"), 0);
	assert_int_equal(client_name(&c, FUSE_RMDIR, FUSE_ROOT_ID, NULL, 0, "0", NULL), -EROFS);
	assert_int_equal(client_call(&c, FUSE_STATFS, FUSE_ROOT_ID, NULL, 0, NULL, 0), 0);
}

static void trees_are_apart(void **state)
{
	struct fs_tree_add add = { .index = 5 };
	struct fuse_link_in link = { 0 };
	struct fuse_rename_in to = { 0 };
	uint64_t file, other, handle;
	struct err err;

	/* The same directory twice: two nodes, and nothing is linked or moved between. */
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, ""), O_PATH | O_CLOEXEC), &err),
			 0);
	assert_int_equal(session_add_tree(c.session, &add, open("/", O_PATH | O_CLOEXEC), &err),
			 -1);
	other = client_lookup(&c, FUSE_ROOT_ID, "5");
	assert_true(other && other != c.tree);
	file = client_create(&c, c.tree, "f", 0644, &handle);
	assert_true(file);
	assert_true(client_lookup(&c, other, "f") != file);
	link.oldnodeid = file;
	assert_int_equal(client_name(&c, FUSE_LINK, other, &link, sizeof(link), "g", NULL), -EXDEV);
	to.newdir = other;
	assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "f", "g"), -EXDEV);
	/* A tree that is one file. */
	add.index = 6;
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, "f"), O_PATH | O_CLOEXEC), &err),
			 0);
	file = client_lookup(&c, FUSE_ROOT_ID, "6");
	assert_int_equal(client_open_node(&c, file, O_RDWR, &handle), 0);
	assert_int_equal(client_write(&c, file, handle, 0, "by itself", 0, 0), 0);
	assert_host_text(&c, "f", "by itself");
	assert_int_equal(client_lookup(&c, file, "x"), 0);
}

/* How long the guest may believe: (name's seconds, its nanoseconds, attributes' seconds). */
static void assert_belief(const char *name, uint64_t seconds, uint32_t nanoseconds, uint64_t attr)
{
	struct fuse_entry_out out = { 0 };

	assert_int_equal(client_name(&c, FUSE_LOOKUP, c.tree, NULL, 0, name, NULL), 0);
	memcpy(&out, client_payload(&c), sizeof(out));
	assert_int_equal(out.entry_valid, seconds);
	assert_int_equal(out.entry_valid_nsec, nanoseconds);
	assert_int_equal(out.attr_valid, attr);
}

static void shared_trees_are_asked(void **state)
{
	struct fs_tree_add add = { .index = 6, .flags = FS_TREE_SHARED };
	struct fuse_entry_out out;
	struct err err;
	uint64_t handle;

	assert_true(client_create(&c, c.tree, "f", 0644, &handle));
	assert_true(client_mkdir(&c, c.tree, "d"));
	assert_belief("f", 1, 0, 1);
	assert_belief("d", 1, 0, 1);
	assert_belief("none", 1, 0, 0);
	c.session->trees[0].flags = FS_TREE_SHARED;
	assert_belief("f", 0, 0, 0);
	assert_belief("d", 0, 1, 0);
	assert_belief("none", 0, 0, 0);
	/* A tree that is one file has no name that would be asked for. */
	assert_int_equal(session_add_tree(c.session, &add,
					  open(client_path(&c, "f"), O_PATH | O_CLOEXEC), &err),
			 0);
	assert_int_equal(client_name(&c, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, "6", NULL), 0);
	memcpy(&out, client_payload(&c), sizeof(out));
	assert_int_equal(out.attr_valid, 0);
	assert_int_equal(out.attr_valid_nsec, 0);
}

static void inode_numbers(void **state)
{
	struct fs_tree_add add = { .index = 5 };
	struct fuse_read_in in = { .size = 4096 };
	const struct fuse_direntplus *entry = client_payload(&c);
	struct fuse_attr attr;
	struct stat st;
	uint64_t handle, other;
	struct err err;

	/* The first file system's are its own; those of another cannot be taken for them. */
	host_write(&c, "f", "");
	assert_int_equal(stat(client_path(&c, "f"), &st), 0);
	assert_int_equal(client_getattr(&c, client_lookup(&c, c.tree, "f"), &attr), 0);
	assert_int_equal(attr.ino, st.st_ino);
	assert_int_equal(session_add_tree(c.session, &add, open("/sys", O_PATH | O_CLOEXEC), &err),
			 0);
	other = client_lookup(&c, FUSE_ROOT_ID, "5");
	assert_int_equal(stat("/sys/kernel", &st), 0);
	assert_int_equal(client_getattr(&c, client_lookup(&c, other, "kernel"), &attr), 0);
	assert_int_equal(attr.ino, st.st_ino ^ 1ull << 48);
	/* A listing says the same. */
	assert_int_equal(client_open_node(&c, other, O_DIRECTORY, &handle), 0);
	in.fh = handle;
	in.offset = 2;
	assert_int_equal(client_call(&c, FUSE_READDIRPLUS, other, &in, sizeof(in), NULL, 0), 0);
	assert_true(c.answered);
	assert_int_equal(entry->dirent.ino, entry->entry_out.attr.ino);
	assert_true(entry->dirent.ino >> 48 == 1);
}

static void read_only_tree(void **state)
{
	struct fuse_rename_in to = { .newdir = c.tree };
	struct fuse_setattr_in attr = { .valid = FATTR_MODE, .mode = 0777 };
	struct fuse_setxattr_in xattr = { .size = 1 };
	struct fuse_create_in create = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_link_in link = { 0 };
	struct fuse_mknod_in node = { .mode = S_IFREG | 0644 };
	uint64_t f, handle;

	c.session->trees[0].flags = FS_TREE_READ_ONLY;
	host_write(&c, "f", "text");
	f = client_lookup(&c, c.tree, "f");
	link.oldnodeid = f;
	assert_int_equal(client_open_node(&c, f, O_RDONLY, &handle), 0);
	assert_int_equal(client_read(&c, f, handle, 0, 100), 0);
	assert_payload(&c, "text");
	assert_int_equal(client_open_node(&c, f, O_RDWR, &handle), -EROFS);
	assert_int_equal(client_open_node(&c, f, O_WRONLY, &handle), -EROFS);
	assert_int_equal(client_open_node(&c, f, O_RDONLY | O_TRUNC, &handle), -EROFS);
	assert_int_equal(client_setattr(&c, f, &attr), -EROFS);
	attr.valid = FATTR_SIZE;
	assert_int_equal(client_setattr(&c, f, &attr), -EROFS);
	assert_int_equal(client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create), "g", NULL),
			 -EROFS);
	assert_int_equal(client_name(&c, FUSE_TMPFILE, c.tree, &create, sizeof(create), "/", NULL),
			 -EROFS);
	assert_int_equal(client_mkdir(&c, c.tree, "d"), 0);
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &node, sizeof(node), "n", NULL),
			 -EROFS);
	assert_int_equal(client_name(&c, FUSE_SYMLINK, c.tree, NULL, 0, "l", "f"), -EROFS);
	assert_int_equal(client_name(&c, FUSE_LINK, c.tree, &link, sizeof(link), "l", NULL),
			 -EROFS);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "f", NULL), -EROFS);
	assert_int_equal(client_name(&c, FUSE_RMDIR, c.tree, NULL, 0, "f", NULL), -EROFS);
	assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "f", "g"), -EROFS);
	assert_int_equal(client_name(&c, FUSE_SETXATTR, f, &xattr, sizeof(xattr), "user.a", ""),
			 -EROFS);
	assert_int_equal(client_name(&c, FUSE_REMOVEXATTR, f, NULL, 0, "user.a", NULL), -EROFS);
	assert_host_text(&c, "f", "text");
}

static void large_directory(void **state)
{
	struct fuse_read_in in = { .size = 4096 };
	uint64_t handle;
	size_t seen = 0, known = 0, open_before;
	char name[300];

	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "%0*d", i % 200 + 5, i);
		host_write(&c, name, "");
	}
	assert_int_equal(client_open_node(&c, c.tree, O_DIRECTORY, &handle), 0);
	open_before = c.session->nodes.cached;
	in.fh = handle;
	for (;;) {
		const uint8_t *at = client_payload(&c);

		assert_int_equal(
			client_call(&c, FUSE_READDIRPLUS, c.tree, &in, sizeof(in), NULL, 0), 0);
		if (!c.answered)
			break;
		for (size_t used = 0; used < c.answered;) {
			const struct fuse_direntplus *entry = (const void *)(at + used);

			seen++;
			known += entry->entry_out.nodeid != 0;
			in.offset = entry->dirent.off;
			used += FUSE_DIRENTPLUS_SIZE(entry);
		}
	}
	assert_int_equal(seen, 2002);
	assert_int_equal(known, 2000);
	/* Knowing 2000 files takes no descriptor. */
	assert_int_equal(c.session->nodes.cached, open_before);
}

static void tables_are_bounded(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle), d;
	struct fuse_read_in in = { .size = 1u << 20 };
	int r, opened = 0;
	char name[32];

	while ((r = client_open_node(&c, f, O_RDONLY, &handle)) == 0)
		opened++;
	assert_int_equal(r, -ENFILE);
	assert_in_range(opened, 100, 256);
	assert_int_equal(client_lookup(&c, c.tree, "f"), f); /* the rest still works */
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		host_write(&c, name, "");
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		r = client_name(&c, FUSE_LOOKUP, c.tree, NULL, 0, name, NULL);
		if (r < 0)
			break;
	}
	assert_int_equal(r, -ENFILE);
	assert_int_equal(c.session->nodes.count, 4096);
	session_reset(c.session);
	assert_int_equal(c.session->nodes.count, 2); /* the top and the tree */
	client_call(&c, FUSE_INIT, 0,
		    &(struct fuse_init_in){ .major = 7, .minor = 38, .flags = ~0u },
		    sizeof(struct fuse_init_in), NULL, 0);
	d = client_lookup(&c, FUSE_ROOT_ID, "0");
	assert_int_equal(client_open_node(&c, d, O_DIRECTORY, &handle), 0);
	in.fh = handle;
	/* A listing names them all and knows what fits. */
	assert_int_equal(client_call(&c, FUSE_READDIRPLUS, d, &in, sizeof(in), NULL, 0), 0);
	assert_true(c.answered > 5000 * 152);
}

/* Returns the answer's error; *node: what was made, its handle given back. */
static int make_unnamed(uint64_t *node)
{
	struct fuse_create_in create = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_release_in release = { 0 };
	struct fuse_entry_out entry;
	struct fuse_open_out out;
	int r = client_name(&c, FUSE_TMPFILE, c.tree, &create, sizeof(create), "/", NULL);

	if (r < 0)
		return r;
	memcpy(&entry, client_payload(&c), sizeof(entry));
	memcpy(&out, (const uint8_t *)client_payload(&c) + sizeof(entry), sizeof(out));
	*node = entry.nodeid;
	release.fh = out.fh;
	return client_call(&c, FUSE_RELEASE, *node, &release, sizeof(release), NULL, 0);
}

/* Each that the guest does not forget keeps a descriptor, though it has not got it open. */
static void unnamed_files_are_bounded(void **state)
{
	const struct nodes *nodes = &c.session->nodes;
	uint64_t node = 0;
	size_t made = 0;
	int r;

	while (made < 2 * nodes->pinned_max && (r = make_unnamed(&node)) == 0)
		made++;
	if (!made && r == -EOPNOTSUPP)
		skip();
	assert_int_equal(r, -ENFILE);
	assert_in_range(nodes->pinned, made, nodes->pinned_max);
	client_forget(&c, node, 1);
	assert_int_equal(make_unnamed(&node), 0);
	assert_int_equal(make_unnamed(&node), -ENFILE);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(init_negotiates),
		TEST(top_directory),
		TEST(trees_are_apart),
		TEST(shared_trees_are_asked),
		TEST(inode_numbers),
		TEST(read_only_tree),
		TEST(large_directory),
		TEST(tables_are_bounded),
		TEST(unnamed_files_are_bounded),
	};

	return cmocka_run_group_tests_name("fs trees", tests, NULL, NULL);
}
