/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests of a hostile guest: numbers that stand for nothing, lengths that lie. */
#include "fs_outside.h"

#include "base/mem.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

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

/* Every operation with a handle, with the given one. */
static void assert_no_handle(uint64_t node, uint64_t fh, bool directory)
{
	struct fuse_fallocate_in fallocate = { .fh = fh, .length = 1 };
	struct fuse_copy_file_range_in copy = {
		.fh_in = fh, .nodeid_out = node, .fh_out = fh, .len = 1
	};
	struct fuse_setattr_in attr = { .valid = FATTR_FH | FATTR_SIZE, .fh = fh };
	struct fuse_getattr_in get = { .getattr_flags = FUSE_GETATTR_FH, .fh = fh };
	struct fuse_lseek_in seek = { .fh = fh, .whence = SEEK_DATA };
	struct fuse_release_in release = { .fh = fh };
	struct fuse_fsync_in sync = { .fh = fh };
	struct fuse_read_in read = { .fh = fh, .size = 4096 };
#define ASK(opcode, in) client_call(&c, opcode, node, &(in), sizeof(in), NULL, 0)

	assert_int_equal(client_read(&c, node, fh, 0, 10), -EBADF);
	assert_int_equal(client_write(&c, node, fh, 0, "x", 0, 0), -EBADF);
	assert_int_equal(ASK(FUSE_FALLOCATE, fallocate), -EBADF);
	assert_int_equal(ASK(FUSE_COPY_FILE_RANGE, copy), -EBADF);
	assert_int_equal(ASK(FUSE_LSEEK, seek), -EBADF);
	assert_int_equal(ASK(FUSE_FSYNC, sync), -EBADF);
	assert_int_equal(ASK(FUSE_RELEASE, release), -EBADF);
	assert_int_equal(client_setattr(&c, node, &attr), -EBADF);
	if (directory)
		return;
	assert_int_equal(ASK(FUSE_GETATTR, get), -EBADF);
	assert_int_equal(ASK(FUSE_READDIR, read), -EBADF);
	assert_int_equal(ASK(FUSE_READDIRPLUS, read), -EBADF);
	assert_int_equal(ASK(FUSE_FSYNCDIR, sync), -EBADF);
	assert_int_equal(ASK(FUSE_RELEASEDIR, release), -EBADF);
}

static void handles_that_are_none(void **state)
{
	uint64_t handle, other, dir, f = client_create(&c, c.tree, "f", 0644, &handle);
	uint64_t g = client_create(&c, c.tree, "g", 0644, &other);
	struct fuse_release_in release = { .fh = handle };
	struct fuse_read_in read = { .size = 4096 };

	assert_no_handle(f, UINT64_MAX, false);
	assert_no_handle(f, handle + 1000, false);
	assert_no_handle(f, handle | 1ull << 32, false);
	assert_no_handle(f, other, false); /* another node's */
	assert_no_handle(g, handle, false);
	assert_int_equal(client_call(&c, FUSE_RELEASE, f, &release, sizeof(release), NULL, 0), 0);
	assert_no_handle(f, handle, false);
	assert_int_equal(client_open_node(&c, c.tree, O_DIRECTORY, &dir), 0);
	assert_no_handle(c.tree, dir, true);
	read.fh = other;
	assert_int_equal(client_call(&c, FUSE_READDIR, g, &read, sizeof(read), NULL, 0), -EBADF);
}

static void nodes_that_are_none(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	const uint64_t none[] = { 0, 2, UINT64_MAX, f + 1, f | 1ull << 32, 1ull << 32 | 1 };
	uint64_t argument[16] = { 0 };

	client_forget(&c, f, 1);
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		for (uint32_t opcode = 1; opcode < 60; opcode++) {
			int r;

			if (opcode == FUSE_INIT || opcode == FUSE_DESTROY || none[i] == c.tree)
				continue;
			r = client_call(&c, opcode, none[i], argument, sizeof(argument), "a\0b", 4);
			assert_true(r != 0);
		}
	}
	/* Still held open, but forgotten: only by what it has not got. */
	assert_int_equal(client_getattr(&c, f, NULL), -ESTALE);
	client_forget(&c, f, UINT64_MAX);
	client_forget(&c, FUSE_ROOT_ID, UINT64_MAX);
	client_forget(&c, c.tree, UINT64_MAX);
	assert_int_equal(client_getattr(&c, c.tree, NULL), -ESTALE);
	assert_int_equal(client_lookup(&c, FUSE_ROOT_ID, "0"), c.tree);
}

static void requests_cut_short(void **state)
{
	uint8_t bytes[200] = { 0 };
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	uint32_t rooms[] = { 0, 1, 15, 16, 17, 24, 40, 120 };

	for (uint32_t opcode = 0; opcode < 60; opcode++) {
		if (opcode == FUSE_DESTROY || opcode == FUSE_INIT || opcode == FUSE_FORGET)
			continue;
		for (size_t size = 0; size < sizeof(bytes); size++)
			client_call(&c, opcode, f, bytes, size, NULL, 0);
		for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
			c.room = rooms[i];
			client_call(&c, opcode, f, bytes, 100, "a\0b", 4);
			client_call(&c, opcode, c.tree, bytes, 8, "a\0b", 4);
		}
		c.room = CLIENT_ROOM;
	}
	assert_int_equal(client_call(&c, 4711, f, bytes, 100, NULL, 0), -ENOSYS);
	assert_int_equal(client_call(&c, FUSE_IOCTL, f, bytes, 100, NULL, 0), -ENOSYS);
	assert_int_equal(client_call(&c, FUSE_SETUPMAPPING, f, bytes, 100, NULL, 0), -ENOSYS);
	assert_int_equal(client_getattr(&c, f, NULL), 0);
}

static void lengths_that_lie(void **state)
{
	struct fuse_in_header in = { .len = 4096, .opcode = FUSE_GETATTR, .nodeid = c.tree };
	struct {
		struct fuse_in_header header;
		struct fuse_getattr_in arg;
	} whole = { in, { 0 } };
	struct chain chain = { .readable_count = 1,
			       .writable_count = 1,
			       .readable_size = sizeof(whole),
			       .writable_size = CLIENT_ROOM,
			       .iov = { { &whole, sizeof(whole) }, { c.answer, CLIENT_ROOM } } };
	struct fuse_out_header *out = (void *)c.answer;
	struct fuse_batch_forget_in batch = { .count = UINT32_MAX };
	struct fuse_forget_one ones[3] = { { UINT64_MAX, 1 }, { c.tree, 1 }, { 0, 0 } };
	struct fuse_setxattr_in xattr = { .size = UINT32_MAX };
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	struct fuse_write_in write = { .fh = handle, .size = UINT32_MAX };

	session_serve(c.session, &c.worker, &chain);
	assert_int_equal(out->error, -EINVAL);
	whole.header.len = 0;
	chain.read_done = chain.write_done = 0;
	session_serve(c.session, &c.worker, &chain);
	assert_int_equal(out->error, -EINVAL);
	whole.header.len = sizeof(whole);
	whole.header.total_extlen = 1;
	chain.read_done = chain.write_done = 0;
	session_serve(c.session, &c.worker, &chain);
	assert_int_equal(out->error, -EINVAL);
	/* A header cut in two. */
	chain.read_done = chain.write_done = 0;
	chain.iov[0].iov_len = chain.readable_size = 20;
	assert_int_equal(session_serve(c.session, &c.worker, &chain), 0);
	assert_int_equal(client_call(&c, FUSE_WRITE, f, &write, sizeof(write), "text", 4), -EINVAL);
	write.size = 4;
	write.offset = UINT64_MAX; /* "the current position", were it passed on */
	assert_int_equal(client_call(&c, FUSE_WRITE, f, &write, sizeof(write), "text", 4), -EINVAL);
	assert_int_equal(client_read(&c, f, handle, UINT64_MAX, 10), -EINVAL);
	assert_int_equal(client_read(&c, f, handle, 0, UINT32_MAX), 0);
	assert_int_equal(c.answered, 0);
	assert_int_equal(client_name(&c, FUSE_SETXATTR, f, &xattr, sizeof(xattr), "user.a", "text"),
			 -EINVAL);
	/* A batch that names more than it holds: what is there counts, then it ends. */
	assert_int_equal(
		client_call(&c, FUSE_BATCH_FORGET, 0, &batch, sizeof(batch), ones, sizeof(ones)),
		1);
	assert_int_equal(client_getattr(&c, c.tree, NULL), -ESTALE);
}

static void modes_that_are_refused(void **state)
{
	uint64_t handle, f = client_create(&c, c.tree, "f", 0644, &handle);
	struct fuse_fallocate_in in = { .fh = handle, .length = 4096 };
	struct fuse_lseek_in seek = { .fh = handle, .whence = SEEK_SET };
	struct fuse_setattr_in size = { .valid = FATTR_SIZE, .size = UINT64_MAX };

	in.mode = FALLOC_FL_COLLAPSE_RANGE;
	assert_int_equal(client_call(&c, FUSE_FALLOCATE, f, &in, sizeof(in), NULL, 0), -EOPNOTSUPP);
	in.mode = 0;
	in.offset = UINT64_MAX;
	assert_int_equal(client_call(&c, FUSE_FALLOCATE, f, &in, sizeof(in), NULL, 0), -EINVAL);
	assert_int_equal(client_call(&c, FUSE_LSEEK, f, &seek, sizeof(seek), NULL, 0), -EINVAL);
	assert_int_equal(client_setattr(&c, f, &size), -EFBIG);
	assert_int_equal(client_open_node(&c, f, O_ACCMODE, &handle), -EINVAL);
	/* Flags that would make open(2) do something else are not passed on. */
	assert_int_equal(
		client_open_node(&c, f, O_RDONLY | O_CREAT | O_EXCL | O_PATH | O_DIRECT, &handle),
		0);
	assert_int_equal(client_read(&c, f, handle, 0, 10), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(handles_that_are_none), TEST(nodes_that_are_none),	   TEST(requests_cut_short),
		TEST(lengths_that_lie),	     TEST(modes_that_are_refused),
	};

	return cmocka_run_group_tests_name("fs requests", tests, NULL, NULL);
}
