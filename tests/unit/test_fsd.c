/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file server's process as a whole, with one queue: what it serves, and what it survives. */
#include "fsd_driver.h"

#include "base/fd.h"
#include "fs/changes.h"
#include "fs/fsd.h"

#include <linux/fuse.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void serves_and_resets(void **state)
{
	struct fsd_driver *f = *state;
	char path[96];
	uint64_t tree;

	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	driver_lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
	assert_int_equal(driver_add_tree(f, 3, f->directory), 3);
	tree = driver_lookup(f, FUSE_ROOT_ID, "3", 0);
	assert_int_equal(driver_lookup(f, tree, "file", 0), 0); /* "not there", to be remembered */
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	assert_true(driver_lookup(f, tree, "file", 0));
	driver_reset(f);
	driver_kick(f); /* nobody listens */
	driver_start(f, DRIVER_DESC(f));
	driver_put(f, 1, FUSE_LOOKUP, tree, "file", 5);
	driver_kick(f);
	assert_int_equal(driver_get(f, 1)->error, -EIO); /* no INIT yet */
	driver_init(f);
	driver_lookup(f, tree, "file", -ESTALE);
	assert_int_equal(driver_lookup(f, FUSE_ROOT_ID, "3", 0), tree);
}

static void many_at_once(void **state)
{
	struct fsd_driver *f = *state;

	assert_int_equal(driver_add_tree(f, 0, f->directory), 0);
	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	for (int round = 0; round < 1000; round++) {
		for (uint16_t i = 0; i < DRIVER_SIZE / 2; i++)
			driver_put(f, i, FUSE_LOOKUP, FUSE_ROOT_ID, "0", 2);
		driver_kick(f);
		assert_int_equal(driver_get(f, DRIVER_SIZE / 2)->error, 0);
	}
}

static void kicked_before_it_listens(void **state)
{
	struct fsd_driver *f = *state;
	struct fuse_init_in in = { .major = FUSE_KERNEL_VERSION, .minor = 38 };
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = 1,
					.queue = { { DRIVER_SIZE, DRIVER_DESC(f), DRIVER_AVAIL(f),
						     DRIVER_USED(f) } } };
	int fds[] = { f->kick[0], f->call[0] };

	driver_put(f, 0, FUSE_INIT, 0, &in, sizeof(in));
	driver_kick(f);
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2), 0);
	assert_int_equal(driver_get(f, 1)->error, 0);
}

static void broken_rings(void **state)
{
	struct fsd_driver *f = *state;

	driver_start(f, DRIVER_MEMORY - 16); /* reaches beyond memory */
	driver_reset(f);
	driver_start(f, DRIVER_DESC(f) + 1); /* misaligned */
	driver_reset(f);
	driver_start(f, DRIVER_DESC(f));
	((struct vring_avail *)driver_at(f, DRIVER_AVAIL(f)))->idx = DRIVER_SIZE + 1; /* jumps */
	driver_kick(f);
	driver_reset(f);
	driver_start(f, DRIVER_DESC(f));
	driver_offer(f, DRIVER_SIZE); /* no such descriptor */
	driver_kick(f);
	driver_reset(f);
	/* It serves as if nothing had been. */
	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
}

static void a_vmm_that_makes_no_sense(void **state)
{
	struct fsd_driver *f = *state;
	struct fs_queue_setup setup = { .type = FS_SETUP_START, .queues = 200 };

	/* It sees its end; the monitor is still listened to. */
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), NULL, 0), 0);
	assert_true(driver_hears(f->vmm_fd, DRIVER_PATIENCE));
	assert_int_equal(read(f->vmm_fd, &setup, sizeof(setup)), 0);
	assert_int_equal(driver_add_tree(f, 0, f->directory), 0);
}

static void trees_that_are_none(void **state)
{
	struct fsd_driver *f = *state;
	struct fs_tree_add add = { .index = 2 };

	assert_int_equal(driver_add_tree(f, FSD_TREES_MAX, "/"), UINT32_MAX);
	assert_int_equal(driver_add_tree(f, 1, "/dev/null"), UINT32_MAX);
	assert_int_equal(driver_add_tree(f, 1, f->directory), 1);
	assert_int_equal(driver_add_tree(f, 1, f->directory), UINT32_MAX);
	/* Without a descriptor. */
	assert_int_equal(fd_send(f->monitor_fd, &add, sizeof(add), NULL, 0), 0);
	assert_true(driver_hears(f->monitor_fd, DRIVER_PATIENCE));
	assert_int_equal(read(f->monitor_fd, &add, sizeof(add)), sizeof(add));
	assert_int_equal(add.index, UINT32_MAX);
}

/* Opens the file of fs/changes.h and reads it: with slot 2, which comes back when there is
 * something. */
static void wait_for_changes(struct fsd_driver *f)
{
	struct fuse_open_in open = { 0 };
	struct fuse_read_in in = { .size = 0x1000 - sizeof(struct fuse_out_header) };
	uint64_t node = driver_lookup(f, FUSE_ROOT_ID, CHANGES_NAME, 0);
	const struct fuse_out_header *out;

	driver_put(f, 1, FUSE_OPEN, node, &open, sizeof(open));
	driver_kick(f);
	out = driver_get(f, 1);
	assert_int_equal(out->error, 0);
	in.fh = ((const struct fuse_open_out *)(out + 1))->fh;
	driver_put(f, 2, FUSE_READ, node, &in, sizeof(in));
	driver_kick(f);
}

static void a_read_that_waits(void **state)
{
	struct fsd_driver *f = *state;
	struct fuse_setattr_in attr = { .valid = FATTR_MTIME };
	const struct fuse_out_header *out;
	const struct change_record *record;
	char path[96];
	uint64_t tree;

	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	assert_int_equal(driver_add_tree_as(f, 0, FS_TREE_SHARED, f->directory), 0);
	tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	driver_lookup(f, tree, "none", 0); /* others are served meanwhile */
	assert_int_equal(((struct vring_used *)driver_at(f, DRIVER_USED(f)))->idx, f->used[0]);
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	out = driver_get(f, 1);
	assert_int_equal(out->unique, 2);
	record = (const void *)(out + 1);
	assert_int_equal(record->kinds, CHANGE_MADE);
	assert_string_equal((const char *)(record + 1), "0/file");
	/* A reset while it waits: it does not come back, and the next one is served. */
	driver_reset(f);
	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	driver_reset(f);
	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	/* What another request brings about wakes it, too: a change of the file itself. */
	driver_put(f, 1, FUSE_SETATTR, driver_lookup(f, FUSE_ROOT_ID, CHANGES_NAME, 0), &attr,
		   sizeof(attr));
	driver_kick(f);
	assert_int_equal(driver_get(f, 1)->unique, 1);
	out = driver_get(f, 1);
	assert_int_equal(out->unique, 2);
	assert_int_equal(out->len, sizeof(*out));
}

/* Woken for what turns out to be nothing, it waits on and is woken for what is something. */
static void a_read_that_waits_on(void **state)
{
	struct fsd_driver *f = *state;
	const struct fuse_out_header *out;
	char path[96];
	uint64_t tree;

	driver_start(f, DRIVER_DESC(f));
	driver_init(f);
	assert_int_equal(driver_add_tree_as(f, 0, FS_TREE_SHARED, f->directory), 0);
	tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	driver_lookup(f, tree, "none", 0);
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(kill(f->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(f->pid, NULL, WUNTRACED), f->pid);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(kill(f->pid, SIGCONT), 0);
	/* What both brought about is done with when the second of these is answered. */
	driver_lookup(f, tree, "none", 0);
	driver_lookup(f, tree, "none", 0);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	out = driver_get(f, 1);
	assert_int_equal(out->unique, 2);
	assert_string_equal((const char *)((const struct change_record *)(out + 1) + 1), "0/file");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, driver_setup, driver_teardown)
	const struct CMUnitTest tests[] = {
		TEST(serves_and_resets),	 TEST(many_at_once),
		TEST(kicked_before_it_listens),	 TEST(broken_rings),
		TEST(a_vmm_that_makes_no_sense), TEST(trees_that_are_none),
		TEST(a_read_that_waits),	 TEST(a_read_that_waits_on),
	};

	return cmocka_run_group_tests_name("fsd", tests, NULL, NULL);
}
