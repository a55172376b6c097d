/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hands queues to the process that serves them, and takes them back at a reset. */
#include "vmm/external.h"

#include "base/fd.h"
#include "disk/diskd.h"
#include "fs/fsd.h"

#include <linux/virtio_blk.h>
#include <linux/virtio_fs.h>
#include <linux/virtio_ids.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

static struct external_device *external_of(struct device *device)
{
	return (struct external_device *)device; /* its first member */
}

static int activate(struct device *device, struct err *err)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = device->ops->queues,
					.features = device->features };
	int fds[2 * FSD_QUEUES];

	for (unsigned int i = 0; i < setup.queues; i++) {
		const struct virtqueue_state *queue = &device->queues[i].state;

		if (!queue->ready)
			return err_set(err, EINVAL, "start without queue %u", i);
		setup.queue[i].size = queue->size;
		setup.queue[i].desc = queue->desc;
		setup.queue[i].avail = queue->avail;
		setup.queue[i].used = queue->used;
		fds[i] = device->kick_fds[i];
		fds[setup.queues + i] = device->call_fd;
	}
	if (fd_send(external_of(device)->server.fd, &setup, sizeof(setup), fds, 2 * setup.queues) <
	    0)
		return err_set(err, errno, "give the queues of the %s to its server",
			       device->ops->name);
	return 0;
}

/* Waits until the server touches guest memory no more. Where it is gone the socket's source says
 * so. */
static void reset(struct device *device)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_RESET };
	struct pollfd answer = { .fd = external_of(device)->server.fd, .events = POLLIN };

	if (fd_send(answer.fd, &setup, sizeof(setup), NULL, 0) < 0)
		return;
	while (poll(&answer, 1, -1) < 0 && errno == EINTR)
		;
	fd_receive(answer.fd, &setup, sizeof(setup), NULL, 0);
}

/* A server speaks only when asked, by reset(): here this can only be its end. */
static int server_ready(struct source *source, uint32_t events, struct err *err)
{
	const struct external_device *external = source->data;

	return err_set(err, 0, "the server of the %s has ended", external->device.ops->name);
}

static const struct device_ops fs_ops = {
	.name = "file system",
	.type = VIRTIO_ID_FS,
	.queues = FSD_QUEUES,
	.queue_size = FSD_QUEUE_SIZE,
	.external = true,
	.activate = activate,
	.reset = reset,
};

/* What is offered of it; the kernel's struct goes on. */
#define DISK_CONFIG_SIZE                                                                           \
	(offsetof(struct virtio_blk_config, write_zeroes_may_unmap) + sizeof(uint32_t))

/* A disk that can be written, and one that cannot. */
#define DISK_OPS(more)                                                                             \
	{                                                                                          \
		.name = "disk", .type = VIRTIO_ID_BLOCK, .queues = DISK_QUEUES,                    \
		.queue_size = DISK_QUEUE_SIZE, .external = true, .activate = activate,             \
		.reset = reset,                                                                    \
		.features = 1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_FLUSH | (more),    \
	}

static const struct device_ops disk_ops =
	DISK_OPS(1ull << VIRTIO_BLK_F_DISCARD | 1ull << VIRTIO_BLK_F_WRITE_ZEROES);
static const struct device_ops disk_read_only_ops = DISK_OPS(1ull << VIRTIO_BLK_F_RO);

static int init(struct external_device *external, const struct device_ops *ops, struct loop *loop,
		int fd, const void *config, uint32_t size, struct err *err)
{
	*external = (struct external_device){
		.device = { .ops = ops, .config_size = size },
		.server = { .fd = fd, .ready = server_ready, .data = external },
	};
	memcpy(external->device.config, config, size);
	return loop_watch(loop, &external->server, EPOLLIN, err);
}

int fs_init(struct external_device *fs, struct loop *loop, int fd, struct err *err)
{
	struct virtio_fs_config config = { .tag = FSD_TAG, .num_request_queues = FSD_QUEUES - 1 };

	_Static_assert(sizeof(config) <= DEVICE_CONFIG_MAX, "the configuration fits");
	return init(fs, &fs_ops, loop, fd, &config, sizeof(config), err);
}

int disk_init(struct external_device *disk, struct loop *loop, const struct vmm_disk *wanted,
	      struct err *err)
{
	struct virtio_blk_config config = {
		.capacity = wanted->sectors,
		.seg_max = DISK_QUEUE_SIZE - 2, /* header and status */
		.max_discard_sectors = DISK_ZERO_SECTORS_MAX,
		.max_discard_seg = 1,
		.discard_sector_alignment = 4096 / DISK_SECTOR,
		.max_write_zeroes_sectors = DISK_ZERO_SECTORS_MAX,
		.max_write_zeroes_seg = 1,
		.write_zeroes_may_unmap = 1,
	};

	_Static_assert(DISK_CONFIG_SIZE <= DEVICE_CONFIG_MAX, "the configuration fits");
	return init(disk, wanted->read_only ? &disk_read_only_ops : &disk_ops, loop, wanted->fd,
		    &config, DISK_CONFIG_SIZE, err);
}
