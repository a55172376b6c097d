/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Socket device (virtio 1.2, 5.10): the table of ports and streams, and who serves what when: the
 * guest's kicks, the descriptors' events and the monitor's additions all end in serve().
 */
#include "vmm/vsock_device.h"

#include "base/fd.h"
#include "vmm/vmm.h"

#include <endian.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static struct vsock *vsock_of(struct device *device)
{
	return (struct vsock *)((char *)device - offsetof(struct vsock, device));
}

struct stream *vsock_find(struct vsock *vsock, uint32_t port)
{
	for (uint32_t i = 0; i < vsock->count; i++)
		if (vsock->streams[i]->port == port)
			return vsock->streams[i];
	return NULL;
}

/* Forgets the streams that are over; their ports are reported when the table is right again. */
static void sweep(struct vsock *vsock)
{
	for (uint32_t i = 0; i < vsock->count;) {
		struct stream *stream = vsock->streams[i];
		uint32_t port = stream->port;
		bool silent = stream->silent;

		if (stream->state != STREAM_DEAD || stream->due != 0) {
			i++;
			continue;
		}
		stream_free(stream, vsock->loop);
		vsock->streams[i] = vsock->streams[--vsock->count];
		if (!silent)
			vsock->owner.closed(vsock->owner.data, port);
	}
}

void vsock_again(struct vsock *vsock)
{
	uint64_t one = 1;

	(void)!write(vsock->again.fd, &one, sizeof(one));
}

/* A packet of the guest's is looked for, and stays. */
static int serve_held(struct vsock *vsock, struct err *err)
{
	struct virtqueue *queue = &vsock->device.queues[QUEUE_TX];
	struct chain chain;
	int r = virtqueue_pop(queue, &chain, err);

	if (r > 0) {
		virtqueue_unpop(queue);
		vsock->owner.knocks(vsock->owner.data);
	}
	return r < 0 ? -1 : 0;
}

static int serve(struct vsock *vsock, struct err *err)
{
	bool full;

	if (vsock->hold)
		return serve_held(vsock, err);
	if (vsock_receive(vsock, err) < 0)
		return -1;
	full = vsock->resets_count == VSOCK_RESETS_MAX;
	if (vsock_send(vsock, err) < 0)
		return -1;
	if (full && vsock->resets_count < VSOCK_RESETS_MAX)
		vsock_again(vsock); /* for the packets that waited */
	sweep(vsock);
	return 0;
}

static int vsock_notify(struct device *device, unsigned int queue, struct err *err)
{
	return queue == QUEUE_EVENT ? 0 : serve(vsock_of(device), err);
}

/* Serves from an event of the loop; an error there is the driver's fault, not the loop's. */
static void serve_event(struct vsock *vsock)
{
	struct err err;

	if (!vsock->device.active)
		sweep(vsock);
	else if (serve(vsock, &err) < 0)
		device_broken(&vsock->device, &err);
}

static int again_ready(struct source *source, uint32_t events, struct err *err)
{
	uint64_t value;

	(void)!read(source->fd, &value, sizeof(value));
	serve_event(source->data);
	return 0;
}

/* A descriptor that cannot be written any more, and has nothing to read: tell the guest now. */
static bool is_broken(const struct stream *stream, uint32_t events)
{
	return (events & (EPOLLERR | EPOLLHUP)) && (stream->flags & VMM_PORT_WRITE) &&
	       !(stream->flags & VMM_PORT_SOCKET) && stream->read_ended;
}

static int stream_ready(struct source *source, uint32_t events, struct err *err)
{
	struct stream *stream = (struct stream *)((char *)source - offsetof(struct stream, source));
	struct vsock *vsock = source->data;

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		stream->readable = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		stream->writable = true;
	if (is_broken(stream, events))
		stream_kill(stream, vsock->loop);
	else
		stream_flush(stream, vsock->loop);
	serve_event(vsock);
	return 0;
}

void vsock_watch(struct vsock *vsock, struct stream *stream)
{
	stream->source.ready = stream_ready;
	stream->source.data = vsock;
}

/* What the guest sent before it reset the device still reaches its descriptor. */
static void vsock_reset(struct device *device)
{
	struct vsock *vsock = vsock_of(device);

	vsock->resets_count = 0;
	for (uint32_t i = 0; i < vsock->count; i++)
		stream_gone(vsock->streams[i], vsock->loop);
	sweep(vsock);
}

static const struct device_ops vsock_ops = {
	.name = "vsock",
	.type = VIRTIO_ID_VSOCK,
	.queues = QUEUES,
	.queue_size = VIRTQUEUE_SIZE,
	.notify = vsock_notify,
	.reset = vsock_reset,
};

struct device *vsock_new(struct loop *loop, const struct vsock_owner *owner, struct err *err)
{
	struct virtio_vsock_config config = { .guest_cid = htole64(VSOCK_GUEST_CID) };
	_cleanup_free_ struct vsock *vsock = xcalloc(1, sizeof(*vsock));
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	if (fd < 0) {
		err_set(err, errno, "make an eventfd for the socket device");
		return NULL;
	}
	vsock->again = (struct source){ .fd = fd, .ready = again_ready, .data = vsock };
	if (loop_watch(loop, &vsock->again, EPOLLIN, err) < 0) {
		close(fd);
		return NULL;
	}
	vsock->loop = loop;
	vsock->owner = *owner;
	vsock->device.ops = &vsock_ops;
	memcpy(vsock->device.config, &config, sizeof(config));
	vsock->device.config_size = sizeof(config);
	return &steal(vsock)->device;
}

void vsock_free(struct device *device)
{
	struct vsock *vsock = vsock_of(device);

	for (uint32_t i = 0; i < vsock->count; i++)
		stream_free(vsock->streams[i], vsock->loop);
	loop_forget(vsock->loop, &vsock->again);
	close(vsock->again.fd);
	free(vsock);
}

int vsock_port_add(struct device *device, uint32_t port, int fd, uint32_t flags, struct err *err)
{
	struct vsock *vsock = vsock_of(device);

	if (vsock_find(vsock, port) || vsock->count == VSOCK_PORTS_MAX) {
		close(fd);
		return vsock_find(vsock, port) ? err_set(err, EEXIST, "add vsock port %u", port)
					       : err_set(err, ENOSPC, "add vsock port %u", port);
	}
	vsock->streams[vsock->count++] = stream_new(port, fd, flags);
	return 0;
}

void vsock_hold(struct device *device, bool hold)
{
	vsock_of(device)->hold = hold;
}

void vsock_port_remove(struct device *device, uint32_t port)
{
	struct vsock *vsock = vsock_of(device);
	struct stream *stream = vsock_find(vsock, port);

	if (!stream)
		return;
	stream->silent = true;
	stream_kill(stream, vsock->loop);
	sweep(vsock);
	vsock_again(vsock); /* for the reset; the queues may be being served right now */
}
