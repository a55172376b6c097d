/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that are read and written past the guest's cache: which handles are of that kind, and what
 * each write of theirs asks of the host. What a whole kernel makes of it: integration/test_fs.py,
 * test_posix.py.
 */
#include "fs_expect.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/uio.h>

#include <cmocka.h>

static struct fuse_client c;
static int flags_of_write; /* of the last one */

/* pwritev2() by the name that it has with an off_t of 64 bits. */
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	flags_of_write = flags;
	return __real_pwritev64v2(fd, iov, count, offset, flags);
}

static int setup(void **state)
{
	client_open(&c, 0);
	host_write(&c, "f", "text");
	return 0;
}

static int teardown(void **state)
{
	client_close(&c);
	return 0;
}

/* Opens it; returns whether past the cache. */
static bool opens_direct(uint64_t node, uint32_t flags, uint64_t *handle)
{
	const struct fuse_open_out *out = client_payload(&c);

	assert_int_equal(client_open_node(&c, node, flags, handle), 0);
	return out->open_flags & FOPEN_DIRECT_IO;
}

static void release(uint64_t node, uint64_t handle)
{
	struct fuse_release_in in = { .fh = handle };

	assert_int_equal(client_call(&c, FUSE_RELEASE, node, &in, sizeof(in), NULL, 0), 0);
}

static void who_only_writes_and_is_alone(void **state)
{
	uint64_t f = client_lookup(&c, c.tree, "f"), writer, reader, both, other;

	assert_true(opens_direct(f, O_WRONLY, &writer));
	assert_true(opens_direct(f, O_WRONLY | O_APPEND, &other));
	release(f, writer);
	release(f, other);
	/* The first that has another use for the cache decides for those beside it... */
	assert_false(opens_direct(f, O_RDONLY, &reader));
	assert_false(opens_direct(f, O_WRONLY, &writer));
	assert_false(opens_direct(f, O_RDWR, &both));
	release(f, reader);
	assert_false(opens_direct(f, O_WRONLY, &other));
	release(f, other);
	release(f, writer);
	release(f, both);
	/* ... and so does a writer, until all have gone. */
	assert_true(opens_direct(f, O_WRONLY, &writer));
	assert_true(opens_direct(f, O_RDONLY, &reader));
	release(f, writer);
	assert_true(opens_direct(f, O_RDWR, &both));
	release(f, reader);
	release(f, both);
	assert_false(opens_direct(f, O_RDWR, &both));
	release(f, both);
}

static void new_files(void **state)
{
	struct fuse_create_in in = { .flags = O_WRONLY | O_CREAT, .mode = S_IFREG | 0644 };
	const struct fuse_entry_out *entry = client_payload(&c);
	const struct fuse_open_out *opened = (const void *)(entry + 1);
	uint64_t handle, both;

	assert_int_equal(client_name(&c, FUSE_CREATE, c.tree, &in, sizeof(in), "new", NULL), 0);
	assert_true(opened->open_flags & FOPEN_DIRECT_IO);
	assert_true(opens_direct(entry->nodeid, O_RDONLY, &handle));
	assert_int_equal(client_name(&c, FUSE_TMPFILE, c.tree, &in, sizeof(in), "", NULL), 0);
	assert_true(opened->open_flags & FOPEN_DIRECT_IO);
	assert_true(client_create(&c, c.tree, "both", 0644, &both));
	assert_false(opened->open_flags & FOPEN_DIRECT_IO);
}

/* All that is open is closed, and counts no more. */
static void guest_that_starts_again(void **state)
{
	struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION, .minor = 41, .flags = ~0u };
	uint64_t f = client_lookup(&c, c.tree, "f"), handle;

	assert_true(opens_direct(f, O_WRONLY, &handle));
	/* One whose kernel cannot map such a file shared. */
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &init, sizeof(init), NULL, 0), 0);
	assert_true(client_lookup(&c, FUSE_ROOT_ID, "0"));
	f = client_lookup(&c, c.tree, "f");
	assert_false(opens_direct(f, O_WRONLY, &handle));
	release(f, handle);
	init.flags2 = UINT32_MAX;
	assert_int_equal(client_call(&c, FUSE_INIT, 0, &init, sizeof(init), NULL, 0), 0);
	assert_true(client_lookup(&c, FUSE_ROOT_ID, "0"));
	f = client_lookup(&c, c.tree, "f");
	assert_false(opens_direct(f, O_RDONLY, &handle));
	release(f, handle);
	assert_true(opens_direct(f, O_WRONLY, &handle));
}

static int written_with(uint64_t node, uint64_t handle, uint32_t flags, uint32_t write_flags)
{
	flags_of_write = -1;
	assert_int_equal(client_write(&c, node, handle, 0, "x", flags, write_flags), 0);
	return flags_of_write;
}

static void what_is_to_be_on_the_disk(void **state)
{
	uint64_t f = client_lookup(&c, c.tree, "f"), handle;

	assert_true(opens_direct(f, O_WRONLY, &handle));
	assert_int_equal(written_with(f, handle, O_WRONLY, 0), 0);
	assert_int_equal(written_with(f, handle, O_WRONLY | O_DSYNC, 0), RWF_DSYNC);
	assert_int_equal(written_with(f, handle, O_WRONLY | O_SYNC, 0), RWF_SYNC);
	assert_int_equal(written_with(f, handle, O_WRONLY | O_SYNC | O_APPEND, 0),
			 RWF_SYNC | RWF_APPEND);
	release(f, handle);
	/* Of these the guest's kernel asks for FSYNC by itself. */
	assert_false(opens_direct(f, O_RDWR, &handle));
	assert_int_equal(written_with(f, handle, O_RDWR | O_DSYNC, 0), 0);
	assert_int_equal(written_with(f, handle, O_RDWR | O_APPEND, 0), RWF_APPEND);
	assert_int_equal(written_with(f, handle, O_RDWR | O_APPEND, FUSE_WRITE_CACHE), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(who_only_writes_and_is_alone),
		TEST(new_files),
		TEST(guest_that_starts_again),
		TEST(what_is_to_be_on_the_disk),
	};

	return cmocka_run_group_tests_name("fs direct", tests, NULL, NULL);
}
