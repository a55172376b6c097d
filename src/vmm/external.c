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

/* Of a file system: the urgent one, and one for requests. */
#define FS_QUEUES_MIN 2u

/* Hands `count` queues from `first` on to a server. */
static int start(struct device *device, int server_fd, unsigned int first, unsigned int count,
		 struct err *err)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = count,
					.features = device->features };
	int fds[2 * FSD_QUEUES_MAX];

	for (unsigned int i = 0; i < count; i++) {
		const struct virtqueue_state *queue = &device->queues[first + i].state;

		setup.queue[i].size = queue->size;
		setup.queue[i].desc = queue->desc;
		setup.queue[i].avail = queue->avail;
		setup.queue[i].used = queue->used;
		fds[i] = device->kick_fds[first + i];
		fds[count + i] = device->call_fd;
	}
	if (fd_send(server_fd, &setup, sizeof(setup), fds, 2 * count) < 0)
		return err_set(err, errno, "give the queues of the %s to its server",
			       device->ops->name);
	return 0;
}

/* A driver need not use every queue. */
static int activate(struct device *device, struct err *err)
{
	const struct external_device *external = external_of(device);
	unsigned int each = device->queue_count / external->server_count;

	for (unsigned int i = 0; i < external->server_count; i++) {
		unsigned int first = i * each, count = 0;

		while (count < each && device->queues[first + count].state.ready)
			count++;
		if (count == 0 && external->server_count > 1)
			continue;
		if (count < each && count < FS_QUEUES_MIN)
			return err_set(err, EINVAL, "start without queue %u", first + count);
		if (start(device, external->servers[i].fd, first, count, err) < 0)
			return -1;
	}
	return 0;
}

/* Waits until no server touches guest memory any more. Where one is gone its socket's source says
 * so. */
static void reset(struct device *device)
{
	const struct external_device *external = external_of(device);
	struct fs_queue_setup setup = { .type = FS_SETUP_RESET };
	bool asked[EXTERNAL_SERVERS_MAX];

	for (unsigned int i = 0; i < external->server_count; i++)
		asked[i] = fd_send(external->servers[i].fd, &setup, sizeof(setup), NULL, 0) >= 0;
	for (unsigned int i = 0; i < external->server_count; i++) {
		struct pollfd answer = { .fd = external->servers[i].fd, .events = POLLIN };

		if (!asked[i])
			continue;
		while (poll(&answer, 1, -1) < 0 && errno == EINTR)
			;
		fd_receive(answer.fd, &setup, sizeof(setup), NULL, 0);
	}
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
		.name = "disk", .type = VIRTIO_ID_BLOCK, .queue_size = DISK_QUEUE_SIZE,            \
		.external = true, .activate = activate, .reset = reset,                            \
		.features = 1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_FLUSH | (more),    \
	}

static const struct device_ops disk_ops =
	DISK_OPS(1ull << VIRTIO_BLK_F_DISCARD | 1ull << VIRTIO_BLK_F_WRITE_ZEROES);
static const struct device_ops disk_read_only_ops = DISK_OPS(1ull << VIRTIO_BLK_F_RO);

static int init(struct external_device *external, const struct device_ops *ops, struct loop *loop,
		const int *fds, unsigned int count, struct err *err)
{
	*external = (struct external_device){ .device = { .ops = ops }, .server_count = count };
	for (unsigned int i = 0; i < count; i++) {
		external->servers[i] =
			(struct source){ .fd = fds[i], .ready = server_ready, .data = external };
		if (loop_watch(loop, &external->servers[i], EPOLLIN, err) < 0)
			return -1;
	}
	return 0;
}

static void configure(struct device *device, const void *config, uint32_t size)
{
	memcpy(device->config, config, size);
	device->config_size = size;
}

int fs_init(struct external_device *fs, struct loop *loop, int fd, unsigned int request_queues,
	    struct err *err)
{
	struct virtio_fs_config config = { .tag = FSD_TAG, .num_request_queues = request_queues };

	_Static_assert(sizeof(config) <= DEVICE_CONFIG_MAX, "the configuration fits");
	if (init(fs, &fs_ops, loop, &fd, 1, err) < 0)
		return -1;
	configure(&fs->device, &config, sizeof(config));
	fs->device.queue_count = 1 + request_queues;
	return 0;
}

int disk_init(struct external_device *disk, struct loop *loop, const struct vmm_disk *wanted,
	      struct err *err)
{
	uint32_t block = wanted->block_size > DISK_SECTOR ? wanted->block_size : DISK_SECTOR;
	struct virtio_blk_config config = {
		.capacity = wanted->sectors,
		.seg_max = DISK_QUEUE_SIZE - 2, /* header and status */
		.blk_size = block,
		.num_queues = (uint16_t)wanted->queues,
		.max_discard_sectors = DISK_ZERO_SECTORS_MAX,
		.max_discard_seg = 1,
		.discard_sector_alignment = (block > 4096 ? block : 4096) / DISK_SECTOR,
		.max_write_zeroes_sectors = DISK_ZERO_SECTORS_MAX,
		.max_write_zeroes_seg = 1,
		.write_zeroes_may_unmap = 1,
	};

	_Static_assert(DISK_CONFIG_SIZE <= DEVICE_CONFIG_MAX, "the configuration fits");
	if (wanted->queues < 1 || wanted->queues > VMM_DISK_QUEUES_MAX)
		return err_set(err, EINVAL, "make a disk of %u queues", wanted->queues);
	if (init(disk, wanted->read_only ? &disk_read_only_ops : &disk_ops, loop, wanted->fd,
		 wanted->queues, err) < 0)
		return -1;
	configure(&disk->device, &config, DISK_CONFIG_SIZE);
	disk->device.queue_count = wanted->queues;
	disk->device.offered = (block > DISK_SECTOR ? 1ull << VIRTIO_BLK_F_BLK_SIZE : 0) |
			       (wanted->queues > 1 ? 1ull << VIRTIO_BLK_F_MQ : 0);
	return 0;
}
