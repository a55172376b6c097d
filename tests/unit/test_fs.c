/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file server's operations on files, asked directly; what a whole kernel makes of them is
 * tested by integration/test_fs.py.
 */
#include "fs_expect.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void data_goes_through(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0640, &handle);
	const struct fuse_write_out *wrote = client_payload(&c);
	struct fuse_attr attr;

	assert_true(f);
	assert_int_equal(client_write(&c, f, handle, 0, "0123456789", 0, 0), 0);
	assert_int_equal(wrote->size, 10);
	assert_int_equal(client_read(&c, f, handle, 3, 4), 0);
	assert_payload(&c, "3456");
	assert_int_equal(client_read(&c, f, handle, 8, 100), 0);
	assert_payload(&c, "89");
	assert_int_equal(client_read(&c, f, handle, 10, 100), 0);
	assert_payload(&c, "");
	assert_int_equal(client_getattr(&c, f, &attr), 0);
	assert_int_equal(attr.size, 10);
	assert_int_equal(attr.mode, S_IFREG | 0640);
	/* What the host appended is not overwritten by one who appends; a page written back goes
	 * where it was. */
	host_write(&c, "g", "host");
	f = client_lookup(&c, c.tree, "g");
	assert_int_equal(client_open_node(&c, f, O_RDWR | O_APPEND, &handle), 0);
	assert_int_equal(client_write(&c, f, handle, 0, "+guest", O_APPEND, 0), 0);
	assert_int_equal(client_write(&c, f, handle, 0, "H", O_APPEND, FUSE_WRITE_CACHE), 0);
	assert_host_text(&c, "g", "Host+guest");
	/* No more than there is room for. */
	c.room = sizeof(struct fuse_out_header) + 3;
	assert_int_equal(client_read(&c, f, handle, 0, 100), 0);
	assert_payload(&c, "Hos");
}

static void owners_and_umask(void **state)
{
	struct fuse_create_in in = { .flags = O_RDWR | O_CREAT,
				     .mode = S_IFREG | 0666,
				     .umask = 0027 };
	struct stat st;
	uint64_t d;

	d = client_mkdir(&c, c.tree, "d");
	assert_int_equal(chmod(client_path(&c, "d"), 0700), 0); /* not the host's to check */
	c.uid = 1000;
	c.gid = 1001;
	assert_int_equal(client_name(&c, FUSE_CREATE, d, &in, sizeof(in), "f", NULL), 0);
	assert_int_equal(stat(client_path(&c, "d/f"), &st), 0);
	assert_int_equal(st.st_uid, 1000);
	assert_int_equal(st.st_gid, 1001);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_true(client_mkdir(&c, d, "e"));
	assert_int_equal(client_name(&c, FUSE_SYMLINK, d, NULL, 0, "l", "f"), 0);
	assert_int_equal(stat(client_path(&c, "d/e"), &st), 0);
	assert_int_equal(st.st_uid, 1000);
	assert_int_equal(lstat(client_path(&c, "d/l"), &st), 0);
	assert_int_equal(st.st_gid, 1001);
	c.uid = UINT32_MAX; /* no user at all */
	assert_int_equal(client_name(&c, FUSE_CREATE, d, &in, sizeof(in), "g", NULL), -EPERM);
	c.uid = 0;
	c.gid = 0;
	assert_int_equal(client_name(&c, FUSE_CREATE, d, &in, sizeof(in), "g", NULL), 0);
	assert_int_equal(stat(client_path(&c, "d/g"), &st), 0);
	assert_int_equal(st.st_uid, 0);
}

static void removed_but_known(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle), other;
	struct fuse_setattr_in in = { .valid = FATTR_MODE, .mode = 0600 };
	struct fuse_release_in release = { .fh = handle };
	struct fuse_attr attr;
	size_t nodes = c.session->nodes.count;

	assert_int_equal(client_write(&c, f, handle, 0, "text", 0, 0), 0);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "f", NULL), 0);
	assert_int_equal(client_setattr(&c, f, &in), 0);
	assert_int_equal(client_getattr(&c, f, &attr), 0);
	assert_int_equal(attr.nlink, 0);
	assert_int_equal(attr.mode, S_IFREG | 0600);
	other = client_create(&c, c.tree, "f", 0644, &handle);
	assert_true(other && other != f);
	assert_int_equal(client_call(&c, FUSE_RELEASE, f, &release, sizeof(release), NULL, 0), 0);
	assert_int_equal(client_open_node(&c, f, O_RDONLY, &handle), 0);
	assert_int_equal(client_read(&c, f, handle, 0, 10), 0);
	assert_payload(&c, "text");
	release.fh = handle;
	assert_int_equal(client_call(&c, FUSE_RELEASE, f, &release, sizeof(release), NULL, 0), 0);
	client_forget(&c, f, 1);
	assert_int_equal(client_getattr(&c, f, NULL), -ESTALE);
	assert_int_equal(c.session->nodes.count, nodes);
}

static void nodes_follow_names(void **state)
{
	struct fuse_rename2_in to = { .newdir = c.tree };
	uint64_t a = client_mkdir(&c, c.tree, "a"), b = client_mkdir(&c, a, "b"), handle;
	uint64_t f = client_create(&c, b, "f", 0644, &handle);

	/* No descriptor may be cached: all goes by the places that are remembered. */
	c.session->nodes.cached_max = 1;
	to.newdir = c.tree;
	assert_int_equal(client_name(&c, FUSE_RENAME2, a, &to, sizeof(to), "b", "z"), 0);
	assert_int_equal(client_getattr(&c, f, NULL), 0);
	assert_int_equal(client_lookup(&c, b, "f"), f);
	to.flags = 1u << 1; /* RENAME_EXCHANGE */
	assert_int_equal(client_name(&c, FUSE_RENAME2, c.tree, &to, sizeof(to), "a", "z"), 0);
	assert_int_equal(client_lookup(&c, c.tree, "a"), b);
	assert_int_equal(client_lookup(&c, c.tree, "z"), a);
	assert_int_equal(client_getattr(&c, f, NULL), 0);
	to.flags = 8;
	assert_int_equal(client_name(&c, FUSE_RENAME2, c.tree, &to, sizeof(to), "a", "z"), -EINVAL);
	/* The host moves it: found again by looking it up. */
	assert_int_equal(rename(client_path(&c, "a/f"), client_path(&c, "g")), 0);
	client_getattr(&c, a, NULL); /* takes the one descriptor */
	assert_int_equal(client_getattr(&c, f, NULL), -ESTALE);
	assert_int_equal(client_lookup(&c, c.tree, "g"), f);
	assert_int_equal(client_getattr(&c, f, NULL), 0);
	/* The host turns a tree upside down: no loop. */
	assert_int_equal(rename(client_path(&c, "a"), client_path(&c, "z/a")), 0);
	assert_int_equal(client_lookup(&c, a, "a"), b);
	assert_int_equal(rename(client_path(&c, "z/a"), client_path(&c, "a")), 0);
	assert_int_equal(rename(client_path(&c, "z"), client_path(&c, "a/z")), 0);
	assert_int_equal(client_lookup(&c, b, "z"), a);
	client_getattr(&c, a, NULL);
	client_getattr(&c, b, NULL);
	assert_int_equal(client_lookup(&c, c.tree, "a"), b);
	assert_int_equal(client_getattr(&c, b, NULL), 0);
}

#define DEEP 400u

/* There is one descriptor, which a request high up takes, and the way down from there is long. */
static void nodes_are_deep(void **state)
{
	size_t most = c.session->nodes.cached_max;
	uint64_t node[DEEP + 1] = { c.tree };
	char half[DEEP + 1], away[2 * DEEP];

	for (unsigned int i = 0; i < DEEP; i++)
		assert_int_not_equal(node[i + 1] = client_mkdir(&c, node[i], "d"), 0);
	for (unsigned int i = 0; i < DEEP / 2; i++)
		memcpy(half + 2 * i, "d/", 3);
	c.session->nodes.cached_max = 1;
	assert_int_not_equal(client_mkdir(&c, node[1], "high"), 0);
	assert_int_not_equal(client_mkdir(&c, node[DEEP], "below"), 0);
	assert_int_equal(c.session->nodes.cached, 2);
	/* It ends half-way, and goes on there when what is missing is back. */
	half[DEEP - 1] = '\0';
	snprintf(away, sizeof(away), "%s-away", client_path(&c, half));
	assert_int_equal(rename(client_path(&c, half), away), 0);
	assert_int_not_equal(client_mkdir(&c, node[1], "high again"), 0);
	assert_int_equal(client_name(&c, FUSE_LOOKUP, node[DEEP], NULL, 0, "below", NULL), -ESTALE);
	assert_int_equal(client_lookup(&c, node[DEEP / 2 - 1], "d-away"), node[DEEP / 2]);
	c.session->nodes.cached_max = most;
	assert_int_not_equal(client_lookup(&c, node[DEEP], "below"), 0);
	assert_int_equal(client_getattr(&c, node[DEEP / 3], NULL), 0);
}

static void hard_links_are_one_node(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	struct fuse_link_in in = { .oldnodeid = f };
	struct fuse_attr attr;

	assert_int_equal(client_name(&c, FUSE_LINK, c.tree, &in, sizeof(in), "g", NULL), 0);
	assert_int_equal(client_lookup(&c, c.tree, "g"), f);
	assert_int_equal(client_name(&c, FUSE_UNLINK, c.tree, NULL, 0, "g", NULL), 0);
	assert_int_equal(client_getattr(&c, f, &attr), 0);
	assert_int_equal(attr.nlink, 1);
	assert_int_equal(client_lookup(&c, c.tree, "f"), f);
	in.oldnodeid = c.tree;
	assert_int_equal(client_name(&c, FUSE_LINK, c.tree, &in, sizeof(in), "d", NULL), -EPERM);
}

static void attributes(void **state)
{
	struct fuse_setxattr_in set = { .size = 5 };
	struct fuse_getxattr_in get = { .size = 100 };
	const struct fuse_getxattr_out *size = client_payload(&c);
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);

	assert_int_equal(client_call(&c, FUSE_SETXATTR, f, &set, sizeof(set), "user.a\0value", 12),
			 0);
	assert_int_equal(client_name(&c, FUSE_GETXATTR, f, &get, sizeof(get), "user.a", NULL), 0);
	assert_payload(&c, "value");
	get.size = 3;
	assert_int_equal(client_name(&c, FUSE_GETXATTR, f, &get, sizeof(get), "user.a", NULL),
			 -ERANGE);
	get.size = 0;
	assert_int_equal(client_name(&c, FUSE_GETXATTR, f, &get, sizeof(get), "user.a", NULL), 0);
	assert_int_equal(size->size, 5);
	assert_int_equal(client_call(&c, FUSE_LISTXATTR, f, &get, sizeof(get), NULL, 0), 0);
	assert_int_equal(size->size, 7);
	assert_int_equal(client_name(&c, FUSE_REMOVEXATTR, f, NULL, 0, "user.a", NULL), 0);
	assert_int_equal(client_name(&c, FUSE_GETXATTR, f, &get, sizeof(get), "user.a", NULL),
			 -ENODATA);
	assert_int_equal(client_name(&c, FUSE_GETXATTR, f, &get, sizeof(get), "odd.a", NULL),
			 -EOPNOTSUPP);
}

static void set_id_bits(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0755, &handle);
	struct fuse_setattr_in size = { .valid = FATTR_SIZE | FATTR_KILL_SUIDGID, .size = 1 };
	struct stat st;

	assert_int_equal(chmod(client_path(&c, "f"), 06755), 0);
	assert_int_equal(client_write(&c, f, handle, 0, "root", 0, 0), 0);
	assert_int_equal(stat(client_path(&c, "f"), &st), 0);
	assert_int_equal(st.st_mode & ALLPERMS, 06755);
	assert_int_equal(client_write(&c, f, handle, 0, "user", 0, FUSE_WRITE_KILL_SUIDGID), 0);
	assert_int_equal(stat(client_path(&c, "f"), &st), 0);
	assert_int_equal(st.st_mode & ALLPERMS, 0755);
	assert_int_equal(chmod(client_path(&c, "f"), 06755), 0);
	assert_int_equal(client_setattr(&c, f, &size), 0);
	assert_int_equal(stat(client_path(&c, "f"), &st), 0);
	assert_int_equal(st.st_mode & ALLPERMS, 0755);
}

static int syncs;

/* In place of the C library's, which fsd would call. */
int syncfs(int fd)
{
	syncs++;
	return 0;
}

static int ask_to_sync(uint64_t node, uint32_t gid, uint32_t pid)
{
	const struct fuse_syncfs_in in = { 0 };
	int before = syncs;

	c.gid = gid;
	c.pid = pid;
	assert_int_equal(client_call(&c, FUSE_SYNCFS, node, &in, sizeof(in), NULL, 0), 0);
	return syncs - before;
}

/* The host's disks are not waited for at the end of a machine, but whenever else the guest asks. */
static void syncs_of_the_end(void **state)
{
	assert_int_equal(ask_to_sync(c.tree, 0, 1), 1);
	assert_int_equal(ask_to_sync(FUSE_ROOT_ID, 0, 1), 1);
	assert_int_equal(ask_to_sync(c.tree, FSD_END_GID, 2), 1);
	assert_int_equal(ask_to_sync(FUSE_ROOT_ID, FSD_END_GID, 2), 1);
	assert_int_equal(ask_to_sync(c.tree, FSD_END_GID, 1), 0);
	assert_int_equal(ask_to_sync(FUSE_ROOT_ID, FSD_END_GID, 1), 0);
}

/* A guest asks at a close whether to flush: not where there can be nothing. */
static void closes_of_readers(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	const struct fuse_open_out *out = client_payload(&c);

	assert_int_equal(client_open_node(&c, f, O_RDONLY, &handle), 0);
	assert_true(out->open_flags & FOPEN_NOFLUSH);
	assert_int_equal(client_open_node(&c, f, O_RDWR, &handle), 0);
	assert_false(out->open_flags & FOPEN_NOFLUSH);
	assert_int_equal(client_open_node(&c, f, O_WRONLY, &handle), 0);
	assert_false(out->open_flags & FOPEN_NOFLUSH);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(data_goes_through),  TEST(owners_and_umask), TEST(removed_but_known),
		TEST(nodes_follow_names), TEST(nodes_are_deep),	  TEST(hard_links_are_one_node),
		TEST(attributes),	  TEST(set_id_bits),	  TEST(syncs_of_the_end),
		TEST(closes_of_readers),
	};

	return cmocka_run_group_tests_name("fs", tests, NULL, NULL);
}
