/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process: a thread and a loop for each queue, which share nothing but what nobody changes. The
 * vmm hands over the queue; a kick takes requests from it, serves them one after the other and
 * raises one interrupt for many. What its jail has to leave it is listed in disk/diskd.h.
 */
#include "disk/diskd.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "disk/request.h"
#include "fs/fsd.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 8u  /* requests served before those done are signalled, at the latest */
#define TURN  64u /* requests served before the vmm has its turn */

#define STACK_SIZE (128u << 10) /* a request's buffers, and a log line */

struct unit {
	struct loop loop;
	struct source vmm, kick;
	int vmm_fd, kick_fd, call_fd;
	const struct guest_memory *memory;
	sem_t *begun;
	struct virtqueue ring;
	struct disk disk;
	bool warned; /* of a driver that breaks its ring */
};

struct diskd {
	struct guest_memory memory;
	sem_t begun; /* once for each thread */
	unsigned int count;
	struct unit unit[DISKD_QUEUES_MAX];
};

static void signal_driver(struct unit *unit)
{
	uint64_t one = 1;

	if (virtqueue_should_signal(&unit->ring))
		(void)!write(unit->call_fd, &one, sizeof(one));
}

static void queue_stop(struct unit *unit)
{
	virtqueue_deactivate(&unit->ring);
	loop_forget(&unit->loop, &unit->kick);
	fd_replace(&unit->kick_fd, -1);
	fd_replace(&unit->call_fd, -1);
}

/* The guest could fill the log otherwise. */
static void warn_once(struct unit *unit, const char *what, const struct err *err)
{
	if (!unit->warned)
		log_warning("diskd: %s: %s; the disk waits for a reset", what, err->text);
	unit->warned = true;
}

static void queue_serve(struct unit *unit)
{
	const uint64_t one = 1;
	struct err err;
	struct chain chain;
	unsigned int done = 0;
	int r = 0;

	while (done < TURN && (r = virtqueue_pop(&unit->ring, &chain, &err)) > 0) {
		uint32_t written = disk_serve(&unit->disk, &chain);

		virtqueue_push(&unit->ring, chain.head, written);
		if (++done % BATCH == 0)
			signal_driver(unit);
	}
	signal_driver(unit);
	if (r > 0) /* perhaps there are more, of which no kick will tell */
		(void)!write(unit->kick_fd, &one, sizeof(one));
	if (r < 0) {
		warn_once(unit, "serve the queue", &err);
		queue_stop(unit);
	}
}

static int on_kick(struct source *source, uint32_t events, struct err *err)
{
	queue_serve(source->data);
	return 0;
}

static int queue_start(struct unit *unit, const struct fs_queue_setup *setup, int *fds,
		       struct err *err)
{
	queue_stop(unit);
	unit->kick_fd = fd_steal(&fds[0]);
	unit->call_fd = fd_steal(&fds[1]);
	unit->ring.state = (struct virtqueue_state){ .size = setup->queue[0].size,
						     .ready = 1,
						     .desc = setup->queue[0].desc,
						     .avail = setup->queue[0].avail,
						     .used = setup->queue[0].used };
	if (virtqueue_activate(&unit->ring, unit->memory, setup->features, err) < 0)
		return -1;
	unit->kick.fd = unit->kick_fd;
	/* By edge: each kick is an event of its own and the counter needs no reading. */
	return loop_watch(&unit->loop, &unit->kick, EPOLLIN | EPOLLET, err);
}

/* Returns false where the vmm does not keep to the protocol. */
static bool vmm_message(struct unit *unit, const struct fs_queue_setup *setup, int *fds)
{
	struct err err;

	switch (setup->type) {
	case FS_SETUP_START:
		if (setup->queues != 1 || fds[1] < 0)
			return false;
		if (queue_start(unit, setup, fds, &err) < 0) {
			warn_once(unit, "start the queue", &err);
			queue_stop(unit);
		} else {
			queue_serve(unit);
		}
		return true;
	case FS_SETUP_RESET:
		queue_stop(unit);
		return write(unit->vmm_fd, setup, sizeof(*setup)) == (ssize_t)sizeof(*setup);
	default:
		return false;
	}
}

static int on_vmm(struct source *source, uint32_t events, struct err *err)
{
	struct unit *unit = source->data;
	struct fs_queue_setup setup;
	int fds[2];
	ssize_t n = fd_receive(source->fd, &setup, sizeof(setup), fds, ARRAY_LEN(fds));
	bool good = n == (ssize_t)sizeof(setup) && vmm_message(unit, &setup, fds);

	for (size_t i = 0; n > 0 && i < ARRAY_LEN(fds); i++)
		fd_replace(&fds[i], -1);
	if (good)
		return 0;
	if (n != 0)
		return err_set(err, EPROTO, "a message of the vmm makes no sense");
	queue_stop(unit);
	loop_quit(&unit->loop);
	return 0;
}

/* Direct I/O needs a buffer for what the guest has not aligned. */
static int unit_setup(struct unit *unit, const struct diskd_queue *queue, struct err *err)
{
	struct stat st;

	if (fstat(queue->image_fd, &st) < 0)
		return err_set(err, errno, "look at its image");
	unit->vmm_fd = unit->vmm.fd = queue->vmm_fd;
	unit->disk = (struct disk){ .number = queue->disk,
				    .fd = queue->image_fd,
				    .is_device = S_ISBLK(st.st_mode),
				    .read_only = queue->read_only,
				    .sectors = queue->sectors,
				    .direct = queue->direct_fd >= 0,
				    .direct_fd = queue->direct_fd,
				    .block_size = queue->block_size };
	if (lseek(queue->image_fd, 0, SEEK_END) < (off_t)(queue->sectors * DISK_SECTOR))
		return err_set(err, 0, "its image became shorter");
	if (unit->disk.direct) {
		if (queue->block_size < DISK_SECTOR || queue->block_size > DISK_BLOCK_MAX ||
		    (queue->block_size & (queue->block_size - 1)))
			return err_set(err, 0, "its blocks have %u bytes", queue->block_size);
		unit->disk.bounce = aligned_alloc(DISK_BLOCK_MAX, DISK_BOUNCE_SIZE);
		if (!unit->disk.bounce)
			return err_set(err, ENOMEM, "get a buffer");
	}
	return loop_init(&unit->loop, err) < 0 ? -1
					       : loop_watch(&unit->loop, &unit->vmm, EPOLLIN, err);
}

static struct diskd *allocate(unsigned int count)
{
	struct diskd *diskd = xcalloc(1, sizeof(*diskd));

	diskd->count = count;
	sem_init(&diskd->begun, 0, 0);
	for (unsigned int i = 0; i < count; i++) {
		struct unit *unit = &diskd->unit[i];

		*unit = (struct unit){
			.loop = { .epoll_fd = -1 },
			.kick_fd = -1,
			.call_fd = -1,
			.memory = &diskd->memory,
			.begun = &diskd->begun,
			.vmm = { .ready = on_vmm, .data = unit },
			.kick = { .ready = on_kick, .data = unit },
		};
	}
	return diskd;
}

struct diskd *diskd_setup(const struct diskd_config *config, struct err *err)
{
	struct diskd *diskd;

	if (config->queues < 1 || config->queues > DISKD_QUEUES_MAX) {
		err_set(err, EINVAL, "set up disks with %u queues", config->queues);
		return NULL;
	}
	/* A file beyond RLIMIT_FSIZE, a peer that is gone: errors, not the end. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	diskd = allocate(config->queues);
	if (guest_memory_map(&diskd->memory, config->memory_fd, config->memory_size, err) < 0) {
		diskd_free(diskd);
		return NULL;
	}
	for (unsigned int i = 0; i < config->queues; i++)
		if (unit_setup(&diskd->unit[i], &config->queue[i], err) < 0) {
			err_wrap(err, "set up disk %u", config->queue[i].disk);
			diskd_free(diskd);
			return NULL;
		}
	return diskd;
}

/* How the C library ends a thread would take calls that the filter forbids. */
static void *unit_run(void *data)
{
	struct unit *unit = data;
	struct err err;
	int r;

	sem_post(unit->begun);
	r = loop_run(&unit->loop, &err);
	if (r < 0)
		log_error("the disk's server ended: %s", err.text);
	_exit(r < 0 ? 1 : 0);
}

int diskd_start(struct diskd *diskd, struct err *err)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r = 0;

	if (diskd->count == 1)
		return 0;
	mallopt(M_ARENA_MAX, 1); /* another one would be made with calls that are forbidden */
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	for (unsigned int i = 1; i < diskd->count && r == 0; i++)
		r = pthread_create(&thread, &attributes, unit_run, &diskd->unit[i]);
	pthread_attr_destroy(&attributes);
	/* Each has then made the calls that a thread begins with, which the filter forbids, too. */
	for (unsigned int i = 1; i < diskd->count && r == 0; i++)
		while (sem_wait(&diskd->begun) < 0)
			;
	return r ? err_set(err, r, "make a thread for a disk's queue") : 0;
}

int diskd_run(struct diskd *diskd, struct err *err)
{
	return loop_run(&diskd->unit[0].loop, err);
}

void diskd_free(struct diskd *diskd)
{
	for (unsigned int i = 0; i < diskd->count; i++) {
		struct unit *unit = &diskd->unit[i];

		queue_stop(unit);
		loop_close(&unit->loop);
		free(unit->disk.bounce);
	}
	guest_memory_unmap(&diskd->memory);
	free(diskd);
}
