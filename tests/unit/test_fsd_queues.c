/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file server with several queues, which threads of its serve. */
#include "fsd_driver.h"

#include "base/fd.h"
#include "fs/fsd.h"

#include <linux/fuse.h>
#include <linux/virtio_ring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* All three, of one machine: requests on the second and the third are served by threads. */
static void start_all(struct fsd_driver *f)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START, .queues = DRIVER_QUEUES };
	int fds[2 * DRIVER_QUEUES];

	for (f->queue = 0; f->queue < DRIVER_QUEUES; f->queue++) {
		memset(driver_at(f, DRIVER_BASE(f)), 0, 0x10000);
		f->used[f->queue] = 0;
		setup.queue[f->queue].size = DRIVER_SIZE;
		setup.queue[f->queue].desc = DRIVER_DESC(f);
		setup.queue[f->queue].avail = DRIVER_AVAIL(f);
		setup.queue[f->queue].used = DRIVER_USED(f);
		fds[f->queue] = f->kick[f->queue];
		fds[DRIVER_QUEUES + f->queue] = f->call[f->queue];
	}
	f->queue = 1;
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2 * DRIVER_QUEUES), 0);
}

static void put_many(struct fsd_driver *f, uint64_t directory)
{
	for (uint16_t i = 0; i < DRIVER_SIZE / 2; i++)
		driver_put(f, i, FUSE_LOOKUP, directory, "file", 5);
	driver_kick(f);
}

static void several_queues(void **state)
{
	struct fsd_driver *f = *state;
	struct fuse_forget_in forget = { .nlookup = DRIVER_SIZE };
	uint64_t tree, file;
	char path[96];

	assert_int_equal(driver_add_tree(f, 0, f->directory), 0);
	start_all(f);
	driver_init(f);
	tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	file = driver_lookup(f, tree, "file", 0);
	for (int round = 0; round < 300; round++) {
		for (f->queue = 1; f->queue < DRIVER_QUEUES; f->queue++)
			put_many(f, tree);
		for (f->queue = 1; f->queue < DRIVER_QUEUES; f->queue++)
			assert_int_equal(driver_get(f, DRIVER_SIZE / 2)->error, 0);
		f->queue = 0;
		driver_put(f, 0, FUSE_FORGET, file, &forget, sizeof(forget));
		driver_kick(f);
		driver_get(f, 1);
	}
	/* What one queue was told is known to the other. */
	f->queue = 1;
	assert_int_equal(driver_lookup(f, tree, "file", 0), file);
	f->queue = 2;
	assert_int_equal(driver_lookup(f, tree, "file", 0), file);
}

/* The guest takes its memory back the moment that the answer is there. */
static void reset_while_others_serve(void **state)
{
	struct fsd_driver *f = *state;

	assert_int_equal(driver_add_tree(f, 0, f->directory), 0);
	for (int round = 0; round < 100; round++) {
		struct vring_used *used;
		uint64_t tree;
		uint16_t before[DRIVER_QUEUES];

		start_all(f);
		driver_init(f);
		tree = driver_lookup(f, FUSE_ROOT_ID, "0", 0);
		for (f->queue = 1; f->queue < DRIVER_QUEUES; f->queue++)
			put_many(f, tree);
		driver_reset(f);
		for (f->queue = 1; f->queue < DRIVER_QUEUES; f->queue++) {
			used = driver_at(f, DRIVER_USED(f));
			before[f->queue] = used->idx;
			memset(driver_at(f, DRIVER_OUT(f)), 0x5a, 0x8000);
			driver_kick(f); /* nobody listens */
		}
		usleep(1000);
		for (f->queue = 1; f->queue < DRIVER_QUEUES; f->queue++) {
			const uint8_t *out = driver_at(f, DRIVER_OUT(f));

			used = driver_at(f, DRIVER_USED(f));
			assert_int_equal(used->idx, before[f->queue]);
			for (size_t i = 0; i < 0x8000; i++)
				assert_int_equal(out[i], 0x5a);
		}
	}
}

/* A queue that its driver breaks stands still; the others go on. */
static void one_of_several_breaks(void **state)
{
	struct fsd_driver *f = *state;

	start_all(f);
	driver_init(f);
	f->queue = 2;
	((struct vring_avail *)driver_at(f, DRIVER_AVAIL(f)))->idx = DRIVER_SIZE + 1;
	driver_kick(f);
	f->queue = 1;
	driver_lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
	driver_reset(f);
	start_all(f);
	driver_init(f);
	f->queue = 2;
	driver_lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, driver_setup, driver_teardown)
	const struct CMUnitTest tests[] = {
		TEST(several_queues),
		TEST(reset_while_others_serve),
		TEST(one_of_several_breaks),
	};

	return cmocka_run_group_tests_name("fsd queues", tests, NULL, NULL);
}
