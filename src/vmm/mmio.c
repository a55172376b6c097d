/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtio-mmio transport: what the guest writes to its registers. That is done on vCPU threads
 * under the device's lock; status and interrupt_status are atomic, for the loop's thread changes
 * them too. What it reads is in mmio_page.c.
 */
#include "vmm/mmio.h"

#include "base/fd.h"
#include "base/log.h"

#define VIRTIO_MMIO_NO_LEGACY
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <linux/virtio_ring.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define VERSION_1 (1ull << VIRTIO_F_VERSION_1)
#define FEATURES  (VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC)

#define S_ACKNOWLEDGE VIRTIO_CONFIG_S_ACKNOWLEDGE
#define S_DRIVER      VIRTIO_CONFIG_S_DRIVER
#define S_FEATURES_OK VIRTIO_CONFIG_S_FEATURES_OK
#define S_DRIVER_OK   VIRTIO_CONFIG_S_DRIVER_OK
#define S_NEEDS_RESET VIRTIO_CONFIG_S_NEEDS_RESET
#define S_FAILED      VIRTIO_CONFIG_S_FAILED

static uint32_t status_get(const struct mmio_device *mmio)
{
	return __atomic_load_n(&mmio->state.status, __ATOMIC_ACQUIRE);
}

static void status_add(struct mmio_device *mmio, uint32_t bits)
{
	__atomic_fetch_or(&mmio->state.status, bits, __ATOMIC_ACQ_REL);
}

static void queues_deactivate(struct device *device)
{
	device->active = false;
	for (unsigned int i = 0; i < device->queue_count; i++)
		virtqueue_deactivate(&device->queues[i]);
}

static void transport_signal(struct device *device)
{
	eventfd_write(device->call_fd, 1);
}

/* No vCPU has the lock of a device that is absent. */
static void transport_appear(struct device *device)
{
	struct mmio_device *mmio = device->transport_data;

	pthread_mutex_lock(&mmio->lock);
	__atomic_store_n(&device->absent, false, __ATOMIC_RELEASE);
	mmio_publish(mmio);
	pthread_mutex_unlock(&mmio->lock);
}

static void transport_broken(struct device *device, const struct err *err)
{
	struct mmio_device *mmio = device->transport_data;

	queues_deactivate(device);
	if (!mmio->warned)
		log_warning("the guest's driver broke the %s device: %s", device->ops->name,
			    err->text);
	mmio->warned = true; /* once: the guest could fill the log otherwise */
	status_add(mmio, S_NEEDS_RESET);
	__atomic_fetch_or(&mmio->state.interrupt_status, VIRTIO_MMIO_INT_CONFIG, __ATOMIC_ACQ_REL);
	mmio_publish_status(mmio);
	eventfd_write(device->call_fd, 1);
}

static const struct device_transport mmio_transport = {
	.signal = transport_signal,
	.broken = transport_broken,
	.appear = transport_appear,
};

static void queue_serve(struct device *device, unsigned int queue)
{
	struct err err;

	if (device->active && device->queues[queue].avail_ring && device->ops->notify &&
	    device->ops->notify(device, queue, &err) < 0)
		transport_broken(device, &err);
}

static int kick_ready(struct source *source, uint32_t events, struct err *err)
{
	struct mmio_kick *kick = source->data;

	queue_serve(kick->mmio->device, kick->queue);
	return 0;
}

/* On the loop's thread: DRIVER_OK. */
static void activate(void *data)
{
	struct mmio_device *mmio = data;
	struct device *device = mmio->device;
	struct err err;

	device->features = mmio->state.driver_features;
	for (unsigned int i = 0; i < device->queue_count; i++) {
		struct virtqueue *queue = &device->queues[i];

		if (queue->state.ready &&
		    virtqueue_activate(queue, mmio->memory, device->features, &err) < 0) {
			transport_broken(device, &err);
			return;
		}
	}
	device->active = true;
	mmio->started = true;
	if (device->ops->activate && device->ops->activate(device, &err) < 0) {
		transport_broken(device, &err);
		return;
	}
	/* Drivers kick before they say DRIVER_OK, against 3.1.1; such a kick was not heard. */
	for (unsigned int i = 0; i < device->queue_count; i++)
		queue_serve(device, i);
}

/* On the loop's thread: 0 was written to the status. */
static void reset(void *data)
{
	struct mmio_device *mmio = data;
	struct device *device = mmio->device;

	queues_deactivate(device);
	if (mmio->started && device->ops->reset)
		device->ops->reset(device);
	mmio->started = false;
	device->features = 0;
	for (unsigned int i = 0; i < device->queue_count; i++)
		device->queues[i].state = (struct virtqueue_state){ 0 };
	mmio->state.device_features_sel = mmio->state.driver_features_sel = 0;
	mmio->state.queue_sel = 0;
	mmio->state.driver_features = 0;
	__atomic_store_n(&mmio->state.interrupt_status, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&mmio->state.status, 0, __ATOMIC_RELEASE);
}

static void on_loop(struct mmio_device *mmio, void (*function)(void *))
{
	/* Where the loop has ended the machine is ending, and nobody looks at the device again. */
	if (mmio->calls)
		calls_run(mmio->calls, function, mmio);
	else
		function(mmio);
}

uint64_t mmio_features(const struct mmio_device *mmio)
{
	return FEATURES | mmio->device->ops->features | mmio->device->offered;
}

static bool features_acceptable(const struct mmio_device *mmio)
{
	uint64_t wanted = mmio->state.driver_features;

	return (wanted & VERSION_1) && !(wanted & ~mmio_features(mmio));
}

/* Each step adds one bit to those before it; everything else but a reset is ignored (3.1.1). */
static void status_write(struct mmio_device *mmio, uint32_t value)
{
	uint32_t now = status_get(mmio) & ~(uint32_t)S_NEEDS_RESET;
	uint32_t added = (value & ~(uint32_t)S_NEEDS_RESET) ^ now;

	if (value == 0) {
		on_loop(mmio, reset);
	} else if (added == S_FAILED) {
		status_add(mmio, S_FAILED);
	} else if ((added == S_ACKNOWLEDGE && now == 0) ||
		   (added == S_DRIVER && now == S_ACKNOWLEDGE) ||
		   (added == S_FEATURES_OK && now == (S_ACKNOWLEDGE | S_DRIVER) &&
		    features_acceptable(mmio))) {
		status_add(mmio, added);
	} else if (added == S_DRIVER_OK && now == (S_ACKNOWLEDGE | S_DRIVER | S_FEATURES_OK)) {
		status_add(mmio, S_DRIVER_OK);
		on_loop(mmio, activate);
	}
}

/* The selected queue, where there is one. */
static struct virtqueue *queue_selected(struct mmio_device *mmio)
{
	uint32_t selected = mmio->state.queue_sel;

	return selected < mmio->device->queue_count ? &mmio->device->queues[selected] : NULL;
}

static void set_half(uint64_t *value, bool high, uint32_t half)
{
	if (high)
		*value = (*value & UINT32_MAX) | (uint64_t)half << 32;
	else
		*value = (*value & ~(uint64_t)UINT32_MAX) | half;
}

/* Between FEATURES_OK and DRIVER_OK, and for its addresses and size while it is not ready. */
static void queue_write(struct mmio_device *mmio, uint64_t offset, uint32_t value)
{
	struct virtqueue *queue = queue_selected(mmio);

	if (!queue || status_get(mmio) != (S_ACKNOWLEDGE | S_DRIVER | S_FEATURES_OK))
		return;
	if (offset == VIRTIO_MMIO_QUEUE_READY)
		queue->state.ready = value & 1;
	if (queue->state.ready)
		return;
	switch (offset) {
	case VIRTIO_MMIO_QUEUE_NUM:
		/* 0 keeps the queue from being activated. */
		queue->state.size = value <= mmio->device->ops->queue_size ? value : 0;
		break;
	case VIRTIO_MMIO_QUEUE_DESC_LOW:
	case VIRTIO_MMIO_QUEUE_DESC_HIGH:
		set_half(&queue->state.desc, offset == VIRTIO_MMIO_QUEUE_DESC_HIGH, value);
		break;
	case VIRTIO_MMIO_QUEUE_AVAIL_LOW:
	case VIRTIO_MMIO_QUEUE_AVAIL_HIGH:
		set_half(&queue->state.avail, offset == VIRTIO_MMIO_QUEUE_AVAIL_HIGH, value);
		break;
	case VIRTIO_MMIO_QUEUE_USED_LOW:
	case VIRTIO_MMIO_QUEUE_USED_HIGH:
		set_half(&queue->state.used, offset == VIRTIO_MMIO_QUEUE_USED_HIGH, value);
		break;
	default:
		break;
	}
}

static void register_write(struct mmio_device *mmio, uint64_t offset, uint32_t value)
{
	struct mmio_state *state = &mmio->state;

	switch (offset) {
	case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
		state->device_features_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
		state->driver_features_sel = value;
		break;
	case VIRTIO_MMIO_DRIVER_FEATURES:
		if (status_get(mmio) == (S_ACKNOWLEDGE | S_DRIVER) &&
		    state->driver_features_sel < 2)
			set_half(&state->driver_features, state->driver_features_sel, value);
		break;
	case VIRTIO_MMIO_QUEUE_SEL:
		state->queue_sel = value;
		break;
	case VIRTIO_MMIO_QUEUE_NOTIFY:
		/* KVM itself handles those of queues that exist, by ioeventfd, if there is KVM. */
		if (value < mmio->device->queue_count)
			eventfd_write(mmio->device->kick_fds[value], 1);
		break;
	case VIRTIO_MMIO_INTERRUPT_ACK:
		__atomic_fetch_and(&state->interrupt_status, ~value, __ATOMIC_ACQ_REL);
		break;
	case VIRTIO_MMIO_STATUS:
		status_write(mmio, value);
		break;
	default:
		queue_write(mmio, offset, value);
		break;
	}
}

void mmio_write(struct mmio_device *mmio, uint64_t offset, const void *data, uint32_t size)
{
	uint32_t value;

	if (size != 4 || offset % 4 || offset >= VIRTIO_MMIO_CONFIG ||
	    __atomic_load_n(&mmio->device->absent, __ATOMIC_ACQUIRE))
		return;
	memcpy(&value, data, 4);
	pthread_mutex_lock(&mmio->lock);
	register_write(mmio, offset, value);
	mmio_publish(mmio);
	pthread_mutex_unlock(&mmio->lock);
}

static int kick_init(struct mmio_device *mmio, unsigned int queue, struct loop *loop,
		     struct err *err)
{
	struct mmio_kick *kick = &mmio->kicks[queue];
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return err_set(err, errno, "create an eventfd");
	mmio->device->kick_fds[queue] = fd;
	kick->mmio = mmio;
	kick->queue = queue;
	kick->source = (struct source){ .fd = fd, .ready = kick_ready, .data = kick };
	if (mmio->device->ops->external)
		return 0;
	/* Edge-triggered, each kick is an event, and the counter need not be read. */
	return loop_watch(loop, &kick->source, EPOLLIN | EPOLLET, err);
}

int mmio_init(struct mmio_device *mmio, struct device *device, uint32_t *page,
	      const struct guest_memory *memory, struct loop *loop, struct calls *calls,
	      struct err *err)
{
	*mmio = (struct mmio_device){
		.state = { .version = MMIO_STATE_VERSION },
		.device = device,
		.page = page,
		.memory = memory,
		.calls = calls,
	};
	pthread_mutex_init(&mmio->lock, NULL);
	device->transport = &mmio_transport;
	device->transport_data = mmio;
	device->queue_count = device->queue_count ?: device->ops->queues;
	for (unsigned int i = 0; i < DEVICE_QUEUES_MAX; i++)
		device->kick_fds[i] = -1;
	device->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (device->call_fd < 0)
		return err_set(err, errno, "create an eventfd");
	for (unsigned int i = 0; i < device->queue_count; i++)
		if (kick_init(mmio, i, loop, err) < 0)
			return -1;
	mmio_publish(mmio);
	return 0;
}

void mmio_free(struct mmio_device *mmio)
{
	for (unsigned int i = 0; i < DEVICE_QUEUES_MAX; i++)
		fd_replace(&mmio->device->kick_fds[i], -1);
	fd_replace(&mmio->device->call_fd, -1);
	pthread_mutex_destroy(&mmio->lock);
}
