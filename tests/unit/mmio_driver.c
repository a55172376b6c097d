/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mmio_driver.h"

#include "base/mem.h"
#include "vmm/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

int mmio_driver_setup(void **state)
{
	struct mmio_driver *f = xcalloc(1, sizeof(*f));
	int fd = guest_memory_create(DRIVER_MEMORY, &f->err);

	if (fd < 0 || guest_memory_map(&f->memory, fd, DRIVER_MEMORY, &f->err) < 0 ||
	    loop_init(&f->loop, &f->err) < 0)
		return -1;
	close(fd);
	rng_init(&f->device);
	*state = f;
	return mmio_init(&f->mmio, &f->device, f->page, &f->memory, &f->loop, NULL, &f->err);
}

int mmio_driver_teardown(void **state)
{
	struct mmio_driver *f = *state;

	mmio_free(&f->mmio);
	loop_close(&f->loop);
	guest_memory_unmap(&f->memory);
	free(f);
	return 0;
}

void *mmio_driver_at(struct mmio_driver *f, uint64_t gpa)
{
	return f->memory.slots[0].host + gpa;
}

uint32_t mmio_get(struct mmio_device *mmio, uint64_t offset)
{
	uint32_t value = 0x5a5a5a5a;

	mmio_read(mmio, offset, &value, 4);
	return value;
}

void mmio_put(struct mmio_device *mmio, uint64_t offset, uint32_t value)
{
	mmio_write(mmio, offset, &value, 4);
}

void mmio_driver_negotiate(struct mmio_device *mmio, uint64_t features)
{
	mmio_put(mmio, VIRTIO_MMIO_STATUS, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	mmio_put(mmio, VIRTIO_MMIO_STATUS, STATUS_UP_TO_FEATURES);
	mmio_put(mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 0);
	mmio_put(mmio, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)features);
	mmio_put(mmio, VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
	mmio_put(mmio, VIRTIO_MMIO_DRIVER_FEATURES, (uint32_t)(features >> 32));
	mmio_put(mmio, VIRTIO_MMIO_STATUS, STATUS_UP_TO_QUEUES);
}

void mmio_driver_queue(struct mmio_device *mmio, uint32_t index, uint64_t desc)
{
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_SEL, index);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_NUM, DRIVER_SIZE);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_DESC_LOW, (uint32_t)desc);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_DESC_HIGH, (uint32_t)(desc >> 32));
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_AVAIL_LOW, DRIVER_AVAIL);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_AVAIL_HIGH, 0);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_USED_LOW, DRIVER_USED);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_USED_HIGH, 0);
	mmio_put(mmio, VIRTIO_MMIO_QUEUE_READY, 1);
}

void mmio_driver_start(struct mmio_driver *f)
{
	mmio_driver_negotiate(&f->mmio, DRIVER_FEATURES);
	mmio_driver_queue(&f->mmio, 0, DRIVER_DESC);
	mmio_put(&f->mmio, VIRTIO_MMIO_STATUS, STATUS_RUNNING);
}

void mmio_driver_offer(struct mmio_driver *f, uint64_t addr, uint32_t len)
{
	struct vring_desc *desc = mmio_driver_at(f, DRIVER_DESC);
	struct vring_avail *avail = mmio_driver_at(f, DRIVER_AVAIL);

	desc[0] = (struct vring_desc){ .addr = addr, .len = len, .flags = VRING_DESC_F_WRITE };
	avail->ring[avail->idx % DRIVER_SIZE] = 0;
	avail->idx++;
}

/* Lets the loop serve what waits, and end. */
static int stop(struct source *source, uint32_t events, struct err *err)
{
	loop_quit(source->data);
	return 0;
}

void mmio_driver_serve(struct mmio_driver *f)
{
	struct source last = { .fd = eventfd(1, EFD_CLOEXEC), .ready = stop, .data = &f->loop };

	f->loop.quit = false;
	assert_int_equal(loop_watch(&f->loop, &last, EPOLLIN, &f->err), 0);
	assert_int_equal(loop_run(&f->loop, &f->err), 0);
	f->loop.quit = false;
	close(last.fd);
}

void mmio_driver_kick(struct mmio_driver *f)
{
	mmio_put(&f->mmio, VIRTIO_MMIO_QUEUE_NOTIFY, 0);
	mmio_driver_serve(f);
}

bool mmio_driver_interrupted(struct mmio_driver *f)
{
	eventfd_t count;

	return eventfd_read(f->device.call_fd, &count) == 0;
}
