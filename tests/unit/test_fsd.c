/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file server's process as a whole: a vmm that hands over queues, a monitor that adds trees, a
 * driver with rings in shared memory. The server runs in a child, as it does in a microVM.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "fs/changes.h"
#include "fs/fsd.h"
#include "virtio/virtqueue.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MEMORY 0x400000ull
#define SIZE   16u
/* Of the queue that is driven now. */
#define BASE	 (f->queue * 0x80000u)
#define DESC	 (BASE + 0x1000u)
#define AVAIL	 (BASE + 0x2000u)
#define USED	 (BASE + 0x3000u)
#define IN	 (BASE + 0x10000u)
#define OUT	 (BASE + 0x40000u)
#define PATIENCE 10000 /* ms */
#define QUEUES	 3

struct fixture {
	char directory[64];
	int memory_fd, vmm_fd, monitor_fd, kick[QUEUES], call[QUEUES];
	struct guest_memory memory;
	pid_t pid;
	uint32_t queue; /* number of the one that is driven */
	uint16_t used[QUEUES];
};

static void *at(struct fixture *f, uint64_t gpa)
{
	return f->memory.slots[0].host + gpa;
}

static void child(const struct fsd_config *config)
{
	struct err err;
	struct fsd *fsd = fsd_setup(config, &err);

	if (!fsd || fsd_enter(fsd, &err) < 0 || fsd_run(fsd, &err) < 0) {
		log_error("%s", err.text);
		_exit(1);
	}
	fsd_free(fsd);
	_exit(0);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	int vmm[2], monitor[2];

	f->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	assert_int_equal(ftruncate(f->memory_fd, MEMORY), 0);
	assert_int_equal(guest_memory_map(&f->memory, f->memory_fd, MEMORY, NULL), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, vmm), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, monitor), 0);
	snprintf(f->directory, sizeof(f->directory), "/tmp/test-fsd-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->pid = fork();
	if (f->pid == 0) {
		struct fsd_config config = { .vmm_fd = vmm[1],
					     .monitor_fd = monitor[1],
					     .memory_fd = f->memory_fd,
					     .memory_size = MEMORY,
					     .request_queues = QUEUES - 1 };

		close(vmm[0]);
		close(monitor[0]);
		child(&config);
	}
	close(vmm[1]);
	close(monitor[1]);
	f->vmm_fd = vmm[0];
	f->monitor_fd = monitor[0];
	for (size_t i = 0; i < QUEUES; i++) {
		f->kick[i] = eventfd(0, EFD_CLOEXEC);
		f->call[i] = eventfd(0, EFD_CLOEXEC);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->monitor_fd); /* the end of the server */
	assert_int_equal(proc_wait(f->pid), 0);
	close(f->vmm_fd);
	close(f->memory_fd);
	for (size_t i = 0; i < QUEUES; i++) {
		close(f->kick[i]);
		close(f->call[i]);
	}
	guest_memory_unmap(&f->memory);
	assert_int_equal(path_remove_tree(AT_FDCWD, f->directory, NULL), 0);
	free(f);
	return 0;
}

static bool readable(int fd, int timeout)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout) == 1 && poll_fd.revents & POLLIN;
}

static uint32_t add_tree_as(struct fixture *f, uint32_t index, uint32_t flags, const char *path)
{
	struct fs_tree_add add = { .index = index, .flags = flags };
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);

	assert_int_equal(fd_send(f->monitor_fd, &add, sizeof(add), &fd, 1), 0);
	assert_true(readable(f->monitor_fd, PATIENCE));
	assert_int_equal(read(f->monitor_fd, &add, sizeof(add)), sizeof(add));
	return add.index;
}

static uint32_t add_tree(struct fixture *f, uint32_t index, const char *path)
{
	return add_tree_as(f, index, 0, path);
}

static void start(struct fixture *f, uint64_t desc)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = 1,
					.queue = { { SIZE, desc, AVAIL, USED } } };
	int fds[] = { f->kick[0], f->call[0] };

	memset(at(f, 0), 0, 0x10000);
	f->used[0] = 0;
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2), 0);
}

static void reset(struct fixture *f)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_RESET };

	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), NULL, 0), 0);
	assert_true(readable(f->vmm_fd, PATIENCE));
	assert_int_equal(read(f->vmm_fd, &setup, sizeof(setup)), sizeof(setup));
	assert_int_equal(setup.type, FS_SETUP_RESET);
}

static void kick(struct fixture *f)
{
	uint64_t one = 1;

	assert_int_equal(write(f->kick[f->queue], &one, sizeof(one)), sizeof(one));
}

static void offer(struct fixture *f, uint16_t head)
{
	struct vring_avail *avail = at(f, AVAIL);

	avail->ring[avail->idx % SIZE] = head;
	__atomic_store_n(&avail->idx, avail->idx + 1, __ATOMIC_RELEASE);
}

/* Puts request number `slot` into the ring. */
static void put(struct fixture *f, uint16_t slot, uint32_t opcode, uint64_t node, const void *arg,
		uint32_t size)
{
	struct vring_desc *desc = at(f, DESC);
	struct fuse_in_header *in = at(f, IN + slot * 0x1000u);

	*in = (struct fuse_in_header){ .len = (uint32_t)sizeof(*in) + size,
				       .opcode = opcode,
				       .unique = slot,
				       .nodeid = node };
	memcpy(in + 1, arg, size);
	desc[2 * slot] = (struct vring_desc){ .addr = IN + slot * 0x1000u,
					      .len = in->len,
					      .flags = VRING_DESC_F_NEXT,
					      .next = (uint16_t)(2 * slot + 1) };
	desc[2 * slot + 1] = (struct vring_desc){ .addr = OUT + slot * 0x1000u,
						  .len = 0x1000,
						  .flags = VRING_DESC_F_WRITE };
	offer(f, (uint16_t)(2 * slot));
}

/* Whether all the requests that get() waits for have come back; there may be more already. */
static bool are_back(struct fixture *f, const struct vring_used *used)
{
	return (int16_t)(__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE) - f->used[f->queue]) >= 0;
}

/* Waits until `count` more requests have come back; returns the first one's answer. */
static const struct fuse_out_header *get(struct fixture *f, unsigned int count)
{
	struct vring_used *used = at(f, USED);
	uint16_t first = f->used[f->queue], *last = &f->used[f->queue];
	uint64_t calls;

	*last = (uint16_t)(*last + count);
	while (!are_back(f, used)) {
		assert_true(readable(f->call[f->queue], PATIENCE));
		assert_int_equal(read(f->call[f->queue], &calls, sizeof(calls)), sizeof(calls));
	}
	return at(f, OUT + used->ring[first % SIZE].id / 2 * 0x1000u);
}

static void init(struct fixture *f)
{
	struct fuse_init_in in = { .major = FUSE_KERNEL_VERSION, .minor = 38, .flags = ~0u };

	put(f, 0, FUSE_INIT, 0, &in, sizeof(in));
	kick(f);
	assert_int_equal(get(f, 1)->error, 0);
}

static uint64_t lookup(struct fixture *f, uint64_t dir, const char *name, int error)
{
	const struct fuse_out_header *out;

	put(f, 1, FUSE_LOOKUP, dir, name, (uint32_t)strlen(name) + 1);
	kick(f);
	out = get(f, 1);
	assert_int_equal(out->error, error);
	return ((const struct fuse_entry_out *)(out + 1))->nodeid;
}

static void serves_and_resets(void **state)
{
	struct fixture *f = *state;
	char path[96];
	uint64_t tree;

	start(f, DESC);
	init(f);
	lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
	assert_int_equal(add_tree(f, 3, f->directory), 3);
	tree = lookup(f, FUSE_ROOT_ID, "3", 0);
	assert_int_equal(lookup(f, tree, "file", 0), 0); /* "not there", to be remembered */
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	assert_true(lookup(f, tree, "file", 0));
	reset(f);
	kick(f); /* nobody listens */
	start(f, DESC);
	put(f, 1, FUSE_LOOKUP, tree, "file", 5);
	kick(f);
	assert_int_equal(get(f, 1)->error, -EIO); /* no INIT yet */
	init(f);
	lookup(f, tree, "file", -ESTALE);
	assert_int_equal(lookup(f, FUSE_ROOT_ID, "3", 0), tree);
}

static void many_at_once(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_tree(f, 0, f->directory), 0);
	start(f, DESC);
	init(f);
	for (int round = 0; round < 1000; round++) {
		for (uint16_t i = 0; i < SIZE / 2; i++)
			put(f, i, FUSE_LOOKUP, FUSE_ROOT_ID, "0", 2);
		kick(f);
		assert_int_equal(get(f, SIZE / 2)->error, 0);
	}
}

static void kicked_before_it_listens(void **state)
{
	struct fixture *f = *state;
	struct fuse_init_in in = { .major = FUSE_KERNEL_VERSION, .minor = 38 };
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = 1,
					.queue = { { SIZE, DESC, AVAIL, USED } } };
	int fds[] = { f->kick[0], f->call[0] };

	put(f, 0, FUSE_INIT, 0, &in, sizeof(in));
	kick(f);
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2), 0);
	assert_int_equal(get(f, 1)->error, 0);
}

/* All three, of one machine: requests on the second and the third are served by threads. */
static void start_all(struct fixture *f)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START, .queues = QUEUES };
	int fds[2 * QUEUES];

	for (f->queue = 0; f->queue < QUEUES; f->queue++) {
		memset(at(f, BASE), 0, 0x10000);
		f->used[f->queue] = 0;
		setup.queue[f->queue].size = SIZE;
		setup.queue[f->queue].desc = DESC;
		setup.queue[f->queue].avail = AVAIL;
		setup.queue[f->queue].used = USED;
		fds[f->queue] = f->kick[f->queue];
		fds[QUEUES + f->queue] = f->call[f->queue];
	}
	f->queue = 1;
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2 * QUEUES), 0);
}

static void put_many(struct fixture *f, uint64_t directory)
{
	for (uint16_t i = 0; i < SIZE / 2; i++)
		put(f, i, FUSE_LOOKUP, directory, "file", 5);
	kick(f);
}

static void several_queues(void **state)
{
	struct fixture *f = *state;
	struct fuse_forget_in forget = { .nlookup = SIZE };
	uint64_t tree, file;
	char path[96];

	assert_int_equal(add_tree(f, 0, f->directory), 0);
	start_all(f);
	init(f);
	tree = lookup(f, FUSE_ROOT_ID, "0", 0);
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	file = lookup(f, tree, "file", 0);
	for (int round = 0; round < 300; round++) {
		for (f->queue = 1; f->queue < QUEUES; f->queue++)
			put_many(f, tree);
		for (f->queue = 1; f->queue < QUEUES; f->queue++)
			assert_int_equal(get(f, SIZE / 2)->error, 0);
		f->queue = 0;
		put(f, 0, FUSE_FORGET, file, &forget, sizeof(forget));
		kick(f);
		get(f, 1);
	}
	/* What one queue was told is known to the other. */
	f->queue = 1;
	assert_int_equal(lookup(f, tree, "file", 0), file);
	f->queue = 2;
	assert_int_equal(lookup(f, tree, "file", 0), file);
}

/* The guest takes its memory back the moment that the answer is there. */
static void reset_while_others_serve(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add_tree(f, 0, f->directory), 0);
	for (int round = 0; round < 100; round++) {
		struct vring_used *used;
		uint64_t tree;
		uint16_t before[QUEUES];

		start_all(f);
		init(f);
		tree = lookup(f, FUSE_ROOT_ID, "0", 0);
		for (f->queue = 1; f->queue < QUEUES; f->queue++)
			put_many(f, tree);
		reset(f);
		for (f->queue = 1; f->queue < QUEUES; f->queue++) {
			used = at(f, USED);
			before[f->queue] = used->idx;
			memset(at(f, OUT), 0x5a, 0x8000);
			kick(f); /* nobody listens */
		}
		usleep(1000);
		for (f->queue = 1; f->queue < QUEUES; f->queue++) {
			const uint8_t *out = at(f, OUT);

			used = at(f, USED);
			assert_int_equal(used->idx, before[f->queue]);
			for (size_t i = 0; i < 0x8000; i++)
				assert_int_equal(out[i], 0x5a);
		}
	}
}

/* A queue that its driver breaks stands still; the others go on. */
static void one_of_several_breaks(void **state)
{
	struct fixture *f = *state;

	start_all(f);
	init(f);
	f->queue = 2;
	((struct vring_avail *)at(f, AVAIL))->idx = SIZE + 1;
	kick(f);
	f->queue = 1;
	lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
	reset(f);
	start_all(f);
	init(f);
	f->queue = 2;
	lookup(f, FUSE_ROOT_ID, "3", -ENOENT);
}

static void broken_rings(void **state)
{
	struct fixture *f = *state;

	start(f, MEMORY - 16); /* reaches beyond memory */
	reset(f);
	start(f, DESC + 1); /* misaligned */
	reset(f);
	start(f, DESC);
	((struct vring_avail *)at(f, AVAIL))->idx = SIZE + 1; /* jumps */
	kick(f);
	reset(f);
	start(f, DESC);
	offer(f, SIZE); /* no such descriptor */
	kick(f);
	reset(f);
	/* It serves as if nothing had been. */
	start(f, DESC);
	init(f);
}

static void a_vmm_that_makes_no_sense(void **state)
{
	struct fixture *f = *state;
	struct fs_queue_setup setup = { .type = FS_SETUP_START, .queues = 200 };

	/* It sees its end; the monitor is still listened to. */
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), NULL, 0), 0);
	assert_true(readable(f->vmm_fd, PATIENCE));
	assert_int_equal(read(f->vmm_fd, &setup, sizeof(setup)), 0);
	assert_int_equal(add_tree(f, 0, f->directory), 0);
}

static void trees_that_are_none(void **state)
{
	struct fixture *f = *state;
	struct fs_tree_add add = { .index = 2 };

	assert_int_equal(add_tree(f, FSD_TREES_MAX, "/"), UINT32_MAX);
	assert_int_equal(add_tree(f, 1, "/dev/null"), UINT32_MAX);
	assert_int_equal(add_tree(f, 1, f->directory), 1);
	assert_int_equal(add_tree(f, 1, f->directory), UINT32_MAX);
	/* Without a descriptor. */
	assert_int_equal(fd_send(f->monitor_fd, &add, sizeof(add), NULL, 0), 0);
	assert_true(readable(f->monitor_fd, PATIENCE));
	assert_int_equal(read(f->monitor_fd, &add, sizeof(add)), sizeof(add));
	assert_int_equal(add.index, UINT32_MAX);
}

/* Opens the file of fs/changes.h and reads it: with slot 2, which comes back when there is
 * something. */
static void wait_for_changes(struct fixture *f)
{
	struct fuse_open_in open = { 0 };
	struct fuse_read_in in = { .size = 0x1000 - sizeof(struct fuse_out_header) };
	uint64_t node = lookup(f, FUSE_ROOT_ID, CHANGES_NAME, 0);
	const struct fuse_out_header *out;

	put(f, 1, FUSE_OPEN, node, &open, sizeof(open));
	kick(f);
	out = get(f, 1);
	assert_int_equal(out->error, 0);
	in.fh = ((const struct fuse_open_out *)(out + 1))->fh;
	put(f, 2, FUSE_READ, node, &in, sizeof(in));
	kick(f);
}

static void a_read_that_waits(void **state)
{
	struct fixture *f = *state;
	struct fuse_setattr_in attr = { .valid = FATTR_MTIME };
	const struct fuse_out_header *out;
	const struct change_record *record;
	char path[96];
	uint64_t tree;

	start(f, DESC);
	init(f);
	assert_int_equal(add_tree_as(f, 0, FS_TREE_SHARED, f->directory), 0);
	tree = lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	lookup(f, tree, "none", 0); /* others are served meanwhile */
	assert_int_equal(((struct vring_used *)at(f, USED))->idx, f->used[0]);
	snprintf(path, sizeof(path), "%s/file", f->directory);
	assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
	out = get(f, 1);
	assert_int_equal(out->unique, 2);
	record = (const void *)(out + 1);
	assert_int_equal(record->kinds, CHANGE_MADE);
	assert_string_equal((const char *)(record + 1), "0/file");
	/* A reset while it waits: it does not come back, and the next one is served. */
	reset(f);
	start(f, DESC);
	init(f);
	tree = lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	reset(f);
	start(f, DESC);
	init(f);
	tree = lookup(f, FUSE_ROOT_ID, "0", 0);
	wait_for_changes(f);
	/* What another request brings about wakes it, too: a change of the file itself. */
	put(f, 1, FUSE_SETATTR, lookup(f, FUSE_ROOT_ID, CHANGES_NAME, 0), &attr, sizeof(attr));
	kick(f);
	assert_int_equal(get(f, 1)->unique, 1);
	out = get(f, 1);
	assert_int_equal(out->unique, 2);
	assert_int_equal(out->len, sizeof(*out));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(serves_and_resets),	 TEST(many_at_once),
		TEST(kicked_before_it_listens),	 TEST(broken_rings),
		TEST(a_vmm_that_makes_no_sense), TEST(trees_that_are_none),
		TEST(a_read_that_waits),	 TEST(several_queues),
		TEST(reset_while_others_serve),	 TEST(one_of_several_breaks),
	};

	return cmocka_run_group_tests_name("fsd", tests, NULL, NULL);
}
