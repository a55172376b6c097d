/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways out of a tree that a hostile guest tries, and what a host changes under the file server
 * meanwhile.
 */
#include "fs_outside.h"

#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

static struct fuse_client c;

static int setup(void **state)
{
	client_open(&c, 0);
	outside_make(&c);
	return 0;
}

static int teardown(void **state)
{
	outside_check(&c);
	client_close(&c);
	return 0;
}

static void names(void **state)
{
	static const uint32_t opcodes[] = { FUSE_LOOKUP, FUSE_UNLINK, FUSE_RMDIR };
	static const char *const bad[] = { "..",  ".",		 "",	 "/",  "a/b",
					   "../", "/etc/passwd", "a/..", "./a" };
	struct fuse_create_in create = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_rename_in to = { .newdir = c.tree };
	struct fuse_mkdir_in dir = { .mode = 0755 };
	char long_name[300];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		for (size_t o = 0; o < ARRAY_LEN(opcodes); o++)
			assert_int_equal(client_name(&c, opcodes[o], c.tree, NULL, 0, bad[i], NULL),
					 -EINVAL);
		assert_int_equal(
			client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create), bad[i], NULL),
			-EINVAL);
		assert_int_equal(
			client_name(&c, FUSE_MKDIR, c.tree, &dir, sizeof(dir), bad[i], NULL),
			-EINVAL);
		assert_int_equal(client_name(&c, FUSE_SYMLINK, c.tree, NULL, 0, bad[i], "x"),
				 -EINVAL);
		assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), bad[i], "x"),
				 -EINVAL);
		assert_int_equal(client_name(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "x", bad[i]),
				 -EINVAL);
	}
	/* No NUL at the end, none at all, a second one missing. */
	assert_int_equal(client_call(&c, FUSE_LOOKUP, c.tree, NULL, 0, "abc", 3), -EINVAL);
	assert_int_equal(client_call(&c, FUSE_LOOKUP, c.tree, NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(client_call(&c, FUSE_RENAME, c.tree, &to, sizeof(to), "a\0b", 3), -EINVAL);
	assert_int_equal(client_name(&c, FUSE_SYMLINK, c.tree, NULL, 0, "a", NULL), -EINVAL);
	memset(long_name, 'n', 256);
	long_name[256] = '\0';
	assert_int_equal(client_name(&c, FUSE_LOOKUP, c.tree, NULL, 0, long_name, NULL),
			 -ENAMETOOLONG);
	long_name[255] = '\0';
	assert_int_equal(client_name(&c, FUSE_LOOKUP, c.tree, NULL, 0, long_name, NULL), 0);
}

static void symlinks_are_not_followed(void **state)
{
	struct fuse_create_in create = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_setattr_in attr = { .valid = FATTR_MODE, .mode = 0777 };
	struct fuse_setxattr_in xattr = { .size = 1 };
	char target[600];
	uint64_t link, handle;

	snprintf(target, sizeof(target), "%s/outside", c.directory);
	assert_int_equal(symlink(target, client_path(&c, "dir")), 0);
	link = client_lookup(&c, c.tree, "dir");
	assert_true(link);
	assert_int_equal(client_name(&c, FUSE_LOOKUP, link, NULL, 0, "secret", NULL), -ENOTDIR);
	assert_int_equal(client_open_node(&c, link, O_DIRECTORY, &handle), -ENOTDIR);
	assert_int_equal(client_mkdir(&c, link, "d"), 0);
	assert_int_equal(client_name(&c, FUSE_UNLINK, link, NULL, 0, "secret", NULL), -ENOTDIR);
	snprintf(target, sizeof(target), "%s/outside/secret", c.directory);
	assert_int_equal(symlink(target, client_path(&c, "file")), 0);
	link = client_lookup(&c, c.tree, "file");
	assert_int_equal(client_open_node(&c, link, O_RDWR, &handle), -EPERM);
	assert_int_equal(client_setattr(&c, link, &attr), -EOPNOTSUPP);
	attr.valid = FATTR_SIZE;
	assert_int_equal(client_setattr(&c, link, &attr), -EINVAL);
	assert_int_equal(client_name(&c, FUSE_SETXATTR, link, &xattr, sizeof(xattr), "user.a", ""),
			 -EPERM);
	/* CREATE on a name that is a symlink opens nothing and makes nothing. */
	assert_int_equal(
		client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create), "file", NULL),
		-ESTALE);
	create.flags |= O_EXCL;
	assert_int_equal(
		client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create), "file", NULL),
		-EEXIST);
}

/* The host's whole tree is shared, and with it its procfs, where this process's own files are. */
static void procfs_is_closed(void **state)
{
	struct fs_tree_add add = { .index = 5 };
	struct fuse_mkdir_in dir = { .mode = 0755 };
	struct fuse_setattr_in mode = { .valid = FATTR_MODE, .mode = 0555 };
	struct fuse_getxattr_in xattr = { .size = 100 };
	struct fuse_rename_in to;
	struct fuse_attr attr;
	uint64_t root, proc, handle;
	struct err err;

	assert_int_equal(session_add_tree(c.session, &add, open("/proc", O_PATH | O_CLOEXEC), &err),
			 -1);
	assert_int_equal(err.code, EACCES);
	assert_int_equal(session_add_tree(c.session, &add, open("/", O_PATH | O_CLOEXEC), &err), 0);
	root = client_lookup(&c, FUSE_ROOT_ID, "5");
	proc = client_lookup(&c, root, "proc");
	/* The guest can mount something over it. */
	assert_int_equal(client_getattr(&c, proc, &attr), 0);
	assert_true(S_ISDIR(attr.mode));
	assert_int_equal(client_name(&c, FUSE_LOOKUP, proc, NULL, 0, "self", NULL), -EACCES);
	assert_int_equal(client_name(&c, FUSE_LOOKUP, proc, NULL, 0, "sys", NULL), -EACCES);
	assert_int_equal(client_open_node(&c, proc, O_DIRECTORY, &handle), -EACCES);
	assert_int_equal(client_name(&c, FUSE_MKDIR, proc, &dir, sizeof(dir), "d", NULL), -EACCES);
	assert_int_equal(client_call(&c, FUSE_STATFS, proc, NULL, 0, NULL, 0), -EACCES);
	assert_int_equal(client_setattr(&c, proc, &mode), -EACCES);
	assert_int_equal(
		client_name(&c, FUSE_GETXATTR, proc, &xattr, sizeof(xattr), "user.a", NULL),
		-EACCES);
	to.newdir = proc;
	assert_int_equal(client_name(&c, FUSE_RENAME, root, &to, sizeof(to), "none", "d"), -EACCES);
	/* What else is mounted there is as the rest. */
	assert_int_equal(client_open_node(&c, client_lookup(&c, root, "sys"), O_DIRECTORY, &handle),
			 0);
}

static void replaced_by_a_symlink(void **state)
{
	uint64_t dir = client_mkdir(&c, c.tree, "d"), handle,
		 f = client_create(&c, dir, "secret", 0644, &handle);
	char target[600];

	snprintf(target, sizeof(target), "%s/outside", c.directory);
	assert_int_equal(rename(client_path(&c, "d"), client_path(&c, "old")), 0);
	assert_int_equal(symlink(target, client_path(&c, "d")), 0);
	/* Nothing is cached: the way there leads over the symlink. */
	node_drop_fd(&c.session->nodes, node_get(&c.session->nodes, dir));
	node_drop_fd(&c.session->nodes, node_get(&c.session->nodes, f));
	assert_int_equal(client_name(&c, FUSE_LOOKUP, dir, NULL, 0, "secret", NULL), -ESTALE);
	assert_int_equal(client_getattr(&c, f, NULL), -ESTALE);
	assert_int_equal(client_open_node(&c, f, O_RDONLY, &handle), -ESTALE);
	assert_int_equal(client_mkdir(&c, dir, "x"), 0);
}

struct swapper {
	char dir[600], link[600];
	atomic_bool stop;
};

/* Swaps DIR/tree/d, a directory, and a symlink to outside, for as long as it may. */
static void *swap(void *data)
{
	struct swapper *swapper = data;

	while (!swapper->stop)
		renameat2(AT_FDCWD, swapper->dir, AT_FDCWD, swapper->link, RENAME_EXCHANGE);
	return NULL;
}

static void race_with_a_symlink(void **state)
{
	struct swapper swapper = { 0 };
	char target[600];
	pthread_t thread;
	unsigned int found = 0;

	snprintf(target, sizeof(target), "%s/outside", c.directory);
	snprintf(swapper.dir, sizeof(swapper.dir), "%s", client_path(&c, "d"));
	snprintf(swapper.link, sizeof(swapper.link), "%s", client_path(&c, "l"));
	assert_int_equal(mkdir(swapper.dir, 0755), 0);
	assert_int_equal(symlink(target, swapper.link), 0);
	assert_int_equal(
		file_replace(AT_FDCWD, client_path(&c, "d/secret"), "inside", 6, 0644, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, swap, &swapper), 0);
	for (int i = 0; i < 5000; i++) {
		uint64_t dir = client_lookup(&c, c.tree, "d"), handle;
		uint64_t file = dir ? client_lookup(&c, dir, "secret") : 0;

		if (dir)
			node_drop_fd(&c.session->nodes, node_get(&c.session->nodes, dir));
		if (file && client_open_node(&c, file, O_RDWR, &handle) == 0) {
			struct fuse_release_in release = { .fh = handle };

			assert_int_equal(client_read(&c, file, handle, 0, 100), 0);
			assert_int_equal(c.answered, 6);
			assert_memory_equal(client_payload(&c), "inside", 6);
			client_call(&c, FUSE_RELEASE, file, &release, sizeof(release), NULL, 0);
			found++;
		}
		if (file)
			client_forget(&c, file, 1);
		if (dir)
			client_forget(&c, dir, 1);
	}
	swapper.stop = true;
	pthread_join(thread, NULL);
	assert_in_range(found, 1, 5000);
}

static void only_files_and_directories_are_opened(void **state)
{
	struct fuse_mknod_in in = { .mode = S_IFCHR | 0666, .rdev = 0x103 };
	struct fuse_create_in create = { .flags = O_RDWR, .mode = 0644 };
	struct fuse_setattr_in size = { .valid = FATTR_SIZE };
	static const char *const special[] = { "fifo", "null", "socket" };
	uint64_t handle;

	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &in, sizeof(in), "dev", NULL), -EPERM);
	in = (struct fuse_mknod_in){ .mode = S_IFBLK | 0666 };
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &in, sizeof(in), "dev", NULL), -EPERM);
	in.mode = S_IFDIR | 0755;
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &in, sizeof(in), "dev", NULL),
			 -EINVAL);
	in.mode = S_IFIFO | 0644;
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &in, sizeof(in), "fifo", NULL), 0);
	in.mode = S_IFSOCK | 0644;
	assert_int_equal(client_name(&c, FUSE_MKNOD, c.tree, &in, sizeof(in), "socket", NULL), 0);
	assert_int_equal(mknod(client_path(&c, "null"), S_IFCHR | 0666, 0x103), 0);
	for (size_t i = 0; i < ARRAY_LEN(special); i++) {
		uint64_t node = client_lookup(&c, c.tree, special[i]);

		assert_true(node);
		assert_int_equal(client_open_node(&c, node, O_RDONLY, &handle), -EPERM);
		assert_int_equal(client_open_node(&c, node, O_RDWR, &handle), -EPERM);
		assert_int_equal(client_open_node(&c, node, O_DIRECTORY, &handle), -ENOTDIR);
		assert_int_equal(client_setattr(&c, node, &size), -EINVAL);
		assert_int_equal(client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create),
					     special[i], NULL),
				 -ESTALE);
		assert_int_equal(client_call(&c, FUSE_SYNCFS, node, "\0\0\0\0\0\0\0", 8, NULL, 0),
				 -EPERM);
	}
	assert_int_equal(client_open_node(&c, c.tree, O_RDWR, &handle), -EISDIR);
}

static void privileges_do_not_survive(void **state)
{
	static const uint8_t net_raw[20] = { 0, 0, 0, 2, 0, 0x20 };
	struct fuse_create_in create = { .flags = O_RDWR, .mode = S_IFREG | 02775 };
	struct fuse_setattr_in owner = { .valid = FATTR_UID, .uid = 5 };
	uint64_t handle, f = client_create(&c, c.tree, "f", 0755, &handle);
	struct stat st;

	/* CVE-2021-20263: security.capability goes with a write, whoever writes. */
	assert_int_equal(setxattr(client_path(&c, "f"), "security.capability", net_raw, 20, 0), 0);
	assert_int_equal(client_write(&c, f, handle, 0, "text", 0, 0), 0);
	assert_int_equal(getxattr(client_path(&c, "f"), "security.capability", NULL, 0), -1);
	assert_int_equal(setxattr(client_path(&c, "f"), "security.capability", net_raw, 20, 0), 0);
	assert_int_equal(chmod(client_path(&c, "f"), 06755), 0);
	assert_int_equal(client_setattr(&c, f, &owner), 0);
	assert_int_equal(getxattr(client_path(&c, "f"), "security.capability", NULL, 0), -1);
	assert_int_equal(stat(client_path(&c, "f"), &st), 0);
	assert_int_equal(st.st_mode & ALLPERMS, 0755);
	/* CVE-2022-0358: a set-group-id file of a group that is not the user's. */
	assert_int_equal(chown(client_path(&c, ""), 0, 5000), 0);
	assert_int_equal(chmod(client_path(&c, ""), 02777), 0);
	c.uid = 1000;
	c.gid = 1000;
	assert_int_equal(client_name(&c, FUSE_CREATE, c.tree, &create, sizeof(create), "g", NULL),
			 0);
	assert_int_equal(stat(client_path(&c, "g"), &st), 0);
	assert_int_equal(st.st_gid, 5000);
	assert_int_equal(st.st_mode & ALLPERMS, 0775);
}

static void the_parent_of_a_tree(void **state)
{
	struct fuse_read_in in = { .size = 4096 };
	const struct fuse_dirent *entry;
	struct stat above;
	uint64_t handle;
	bool seen = false;

	assert_int_equal(stat(c.directory, &above), 0);
	assert_int_equal(client_open_node(&c, c.tree, O_DIRECTORY, &handle), 0);
	in.fh = handle;
	assert_int_equal(client_call(&c, FUSE_READDIR, c.tree, &in, sizeof(in), NULL, 0), 0);
	for (size_t at = 0; at < c.answered; at += FUSE_DIRENT_SIZE(entry)) {
		entry = (const void *)((const uint8_t *)client_payload(&c) + at);
		assert_true(entry->ino != above.st_ino);
		seen |= entry->namelen == 2;
	}
	assert_true(seen);
	/* Offsets of its own making. */
	in.offset = INT64_MAX;
	client_call(&c, FUSE_READDIR, c.tree, &in, sizeof(in), NULL, 0);
	in.offset = UINT64_MAX;
	assert_int_equal(client_call(&c, FUSE_READDIR, c.tree, &in, sizeof(in), NULL, 0), -EINVAL);
}

/* Whoever takes fsd over keeps its working directory, which is in a procfs, and its root's uid. */
static void nothing_of_the_kernel_through_proc(void **state)
{
	int fd;

	assert_int_equal(access("../../sys/kernel/core_pattern", F_OK), -1);
	assert_int_equal(access("../../sysrq-trigger", F_OK), -1);
	fd = open("../oom_score_adj", O_WRONLY | O_CLOEXEC);
	assert_int_equal(fd, -1);
	assert_int_equal(errno, EROFS);
	/* It is where descriptors have names, still. */
	assert_int_equal(access("0", F_OK), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(names),
		TEST(symlinks_are_not_followed),
		TEST(replaced_by_a_symlink),
		TEST(race_with_a_symlink),
		TEST(only_files_and_directories_are_opened),
		TEST(privileges_do_not_survive),
		TEST(the_parent_of_a_tree),
		TEST(nothing_of_the_kernel_through_proc),
		TEST(procfs_is_closed),
	};

	return cmocka_run_group_tests_name("fs attacks", tests, NULL, NULL);
}
