/* SPDX-License-Identifier: GPL-2.0-or-later */
/* File system device: hands its queues to fsd, and takes them back at a reset. */
#include "vmm/fs.h"

#include "base/fd.h"
#include "fs/fsd.h"

#include <linux/virtio_fs.h>
#include <linux/virtio_ids.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

static struct fs_device *fs_of(struct device *device)
{
	return (struct fs_device *)device; /* its first member */
}

static int fs_activate(struct device *device, struct err *err)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_START,
					.queues = FSD_QUEUES,
					.features = device->features };
	int fds[2 * FSD_QUEUES];

	for (unsigned int i = 0; i < FSD_QUEUES; i++) {
		const struct virtqueue_state *queue = &device->queues[i].state;

		if (!queue->ready)
			return err_set(err, EINVAL, "start without queue %u", i);
		setup.queue[i].size = queue->size;
		setup.queue[i].desc = queue->desc;
		setup.queue[i].avail = queue->avail;
		setup.queue[i].used = queue->used;
		fds[i] = device->kick_fds[i];
		fds[FSD_QUEUES + i] = device->call_fd;
	}
	if (fd_send(fs_of(device)->server.fd, &setup, sizeof(setup), fds, ARRAY_LEN(fds)) < 0)
		return err_set(err, errno, "give the queues to the file server");
	return 0;
}

/* Waits until fsd touches guest memory no more. Where it is gone the socket's source says so. */
static void fs_reset(struct device *device)
{
	struct fs_queue_setup setup = { .type = FS_SETUP_RESET };
	struct pollfd answer = { .fd = fs_of(device)->server.fd, .events = POLLIN };

	if (fd_send(answer.fd, &setup, sizeof(setup), NULL, 0) < 0)
		return;
	while (poll(&answer, 1, -1) < 0 && errno == EINTR)
		;
	fd_receive(answer.fd, &setup, sizeof(setup), NULL, 0);
}

/* fsd speaks only when asked, by fs_reset(): here this can only be its end. */
static int server_ready(struct source *source, uint32_t events, struct err *err)
{
	return err_set(err, 0, "the file server has ended");
}

static const struct device_ops fs_ops = {
	.name = "file system",
	.type = VIRTIO_ID_FS,
	.queues = FSD_QUEUES,
	.queue_size = FSD_QUEUE_SIZE,
	.external = true,
	.activate = fs_activate,
	.reset = fs_reset,
};

int fs_init(struct fs_device *fs, struct loop *loop, int fd, struct err *err)
{
	struct virtio_fs_config config = { .tag = FSD_TAG, .num_request_queues = FSD_QUEUES - 1 };

	_Static_assert(sizeof(config) <= DEVICE_CONFIG_MAX, "the configuration fits");
	*fs = (struct fs_device){
		.device = { .ops = &fs_ops, .config_size = sizeof(config) },
		.server = { .fd = fd, .ready = server_ready },
	};
	memcpy(fs->device.config, &config, sizeof(config));
	return loop_watch(loop, &fs->server, EPOLLIN, err);
}
