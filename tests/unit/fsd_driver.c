/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fsd_driver.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "fs/fsd.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

void *driver_at(struct fsd_driver *f, uint64_t gpa)
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

int driver_setup(void **state)
{
	struct fsd_driver *f = xcalloc(1, sizeof(*f));
	int vmm[2], monitor[2];

	f->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	assert_int_equal(ftruncate(f->memory_fd, DRIVER_MEMORY), 0);
	assert_int_equal(guest_memory_map(&f->memory, f->memory_fd, DRIVER_MEMORY, NULL), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, vmm), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, monitor), 0);
	snprintf(f->directory, sizeof(f->directory), "/tmp/test-fsd-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->pid = fork();
	if (f->pid == 0) {
		struct fsd_config config = { .vmm_fd = vmm[1],
					     .monitor_fd = monitor[1],
					     .memory_fd = f->memory_fd,
					     .memory_size = DRIVER_MEMORY,
					     .request_queues = DRIVER_QUEUES - 1 };

		close(vmm[0]);
		close(monitor[0]);
		child(&config);
	}
	close(vmm[1]);
	close(monitor[1]);
	f->vmm_fd = vmm[0];
	f->monitor_fd = monitor[0];
	for (size_t i = 0; i < DRIVER_QUEUES; i++) {
		f->kick[i] = eventfd(0, EFD_CLOEXEC);
		f->call[i] = eventfd(0, EFD_CLOEXEC);
	}
	*state = f;
	return 0;
}

int driver_teardown(void **state)
{
	struct fsd_driver *f = *state;

	close(f->monitor_fd); /* the end of the server */
	assert_int_equal(proc_wait(f->pid), 0);
	close(f->vmm_fd);
	close(f->memory_fd);
	for (size_t i = 0; i < DRIVER_QUEUES; i++) {
		close(f->kick[i]);
		close(f->call[i]);
	}
	guest_memory_unmap(&f->memory);
	assert_int_equal(path_remove_tree(AT_FDCWD, f->directory, NULL), 0);
	free(f);
	return 0;
}

bool driver_hears(int fd, int timeout)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout) == 1 && poll_fd.revents & POLLIN;
}

uint32_t driver_add_tree_as(struct fsd_driver *f, uint32_t index, uint32_t flags, const char *path)
{
	struct fs_tree_add add = { .index = index, .flags = flags };
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);

	assert_int_equal(fd_send(f->monitor_fd, &add, sizeof(add), &fd, 1), 0);
	assert_true(driver_hears(f->monitor_fd, DRIVER_PATIENCE));
	assert_int_equal(read(f->monitor_fd, &add, sizeof(add)), sizeof(add));
	return add.index;
}

uint32_t driver_add_tree(struct fsd_driver *f, uint32_t index, const char *path)
{
	return driver_add_tree_as(f, index, 0, path);
}

void driver_start(struct fsd_driver *f, uint64_t desc)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = 1,
					.queue = { { DRIVER_SIZE, desc, DRIVER_AVAIL(f),
						     DRIVER_USED(f) } } };
	int fds[] = { f->kick[0], f->call[0] };

	memset(driver_at(f, 0), 0, 0x10000);
	f->used[0] = 0;
	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), fds, 2), 0);
}

void driver_reset(struct fsd_driver *f)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_RESET };

	assert_int_equal(fd_send(f->vmm_fd, &setup, sizeof(setup), NULL, 0), 0);
	assert_true(driver_hears(f->vmm_fd, DRIVER_PATIENCE));
	assert_int_equal(read(f->vmm_fd, &setup, sizeof(setup)), sizeof(setup));
	assert_int_equal(setup.type, FS_SETUP_RESET);
}

void driver_kick(struct fsd_driver *f)
{
	uint64_t one = 1;

	assert_int_equal(write(f->kick[f->queue], &one, sizeof(one)), sizeof(one));
}

void driver_offer(struct fsd_driver *f, uint16_t head)
{
	struct vring_avail *avail = driver_at(f, DRIVER_AVAIL(f));

	avail->ring[avail->idx % DRIVER_SIZE] = head;
	__atomic_store_n(&avail->idx, avail->idx + 1, __ATOMIC_RELEASE);
}

void driver_put(struct fsd_driver *f, uint16_t slot, uint32_t opcode, uint64_t node,
		const void *arg, uint32_t size)
{
	struct vring_desc *desc = driver_at(f, DRIVER_DESC(f));
	struct fuse_in_header *in = driver_at(f, DRIVER_IN(f) + slot * 0x1000u);

	*in = (struct fuse_in_header){ .len = (uint32_t)sizeof(*in) + size,
				       .opcode = opcode,
				       .unique = slot,
				       .nodeid = node };
	memcpy(in + 1, arg, size);
	desc[2 * slot] = (struct vring_desc){ .addr = DRIVER_IN(f) + slot * 0x1000u,
					      .len = in->len,
					      .flags = VRING_DESC_F_NEXT,
					      .next = (uint16_t)(2 * slot + 1) };
	desc[2 * slot + 1] = (struct vring_desc){ .addr = DRIVER_OUT(f) + slot * 0x1000u,
						  .len = 0x1000,
						  .flags = VRING_DESC_F_WRITE };
	driver_offer(f, (uint16_t)(2 * slot));
}

/* Whether all the requests that get() waits for have come back; there may be more already. */
static bool are_back(struct fsd_driver *f, const struct vring_used *used)
{
	return (int16_t)(__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE) - f->used[f->queue]) >= 0;
}

const struct fuse_out_header *driver_get(struct fsd_driver *f, unsigned int count)
{
	struct vring_used *used = driver_at(f, DRIVER_USED(f));
	uint16_t first = f->used[f->queue], *last = &f->used[f->queue];
	uint64_t calls;

	*last = (uint16_t)(*last + count);
	while (!are_back(f, used)) {
		assert_true(driver_hears(f->call[f->queue], DRIVER_PATIENCE));
		assert_int_equal(read(f->call[f->queue], &calls, sizeof(calls)), sizeof(calls));
	}
	return driver_at(f, DRIVER_OUT(f) + used->ring[first % DRIVER_SIZE].id / 2 * 0x1000u);
}

void driver_init(struct fsd_driver *f)
{
	struct fuse_init_in in = { .major = FUSE_KERNEL_VERSION, .minor = 38, .flags = ~0u };

	driver_put(f, 0, FUSE_INIT, 0, &in, sizeof(in));
	driver_kick(f);
	assert_int_equal(driver_get(f, 1)->error, 0);
}

uint64_t driver_lookup(struct fsd_driver *f, uint64_t dir, const char *name, int error)
{
	const struct fuse_out_header *out;

	driver_put(f, 1, FUSE_LOOKUP, dir, name, (uint32_t)strlen(name) + 1);
	driver_kick(f);
	out = driver_get(f, 1);
	assert_int_equal(out->error, error);
	return ((const struct fuse_entry_out *)(out + 1))->nodeid;
}
