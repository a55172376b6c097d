/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process: one thread, one loop, one disk. The vmm hands over the queue; a kick takes requests
 * from it, serves them one after the other and raises one interrupt for many. What its jail has to
 * leave it is listed in disk/diskd.h.
 */
#include "disk/diskd.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "disk/request.h"
#include "fs/fsd.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 8u  /* requests served before those done are signalled, at the latest */
#define TURN  64u /* requests served before the vmm has its turn */

struct diskd {
	struct loop loop;
	struct source vmm, kick;
	int vmm_fd, kick_fd, call_fd;
	struct guest_memory memory;
	struct virtqueue ring;
	struct disk disk;
	bool warned; /* of a driver that breaks its ring */
};

static void signal_driver(struct diskd *diskd)
{
	uint64_t one = 1;

	if (virtqueue_should_signal(&diskd->ring))
		(void)!write(diskd->call_fd, &one, sizeof(one));
}

static void queue_stop(struct diskd *diskd)
{
	virtqueue_deactivate(&diskd->ring);
	loop_forget(&diskd->loop, &diskd->kick);
	fd_replace(&diskd->kick_fd, -1);
	fd_replace(&diskd->call_fd, -1);
}

/* The guest could fill the log otherwise. */
static void warn_once(struct diskd *diskd, const char *what, const struct err *err)
{
	if (!diskd->warned)
		log_warning("diskd: %s: %s; the disk waits for a reset", what, err->text);
	diskd->warned = true;
}

static void queue_serve(struct diskd *diskd)
{
	const uint64_t one = 1;
	struct err err;
	struct chain chain;
	unsigned int done = 0;
	int r = 0;

	while (done < TURN && (r = virtqueue_pop(&diskd->ring, &chain, &err)) > 0) {
		uint32_t written = disk_serve(&diskd->disk, &chain);

		virtqueue_push(&diskd->ring, chain.head, written);
		if (++done % BATCH == 0)
			signal_driver(diskd);
	}
	signal_driver(diskd);
	if (r > 0) /* perhaps there are more, of which no kick will tell */
		(void)!write(diskd->kick_fd, &one, sizeof(one));
	if (r < 0) {
		warn_once(diskd, "serve the queue", &err);
		queue_stop(diskd);
	}
}

static int on_kick(struct source *source, uint32_t events, struct err *err)
{
	queue_serve(source->data);
	return 0;
}

static int queue_start(struct diskd *diskd, const struct fs_queue_setup *setup, int *fds,
		       struct err *err)
{
	queue_stop(diskd);
	diskd->kick_fd = fd_steal(&fds[0]);
	diskd->call_fd = fd_steal(&fds[1]);
	diskd->ring.state = (struct virtqueue_state){ .size = setup->queue[0].size,
						      .ready = 1,
						      .desc = setup->queue[0].desc,
						      .avail = setup->queue[0].avail,
						      .used = setup->queue[0].used };
	if (virtqueue_activate(&diskd->ring, &diskd->memory, setup->features, err) < 0)
		return -1;
	diskd->kick.fd = diskd->kick_fd;
	/* By edge: each kick is an event of its own and the counter needs no reading. */
	return loop_watch(&diskd->loop, &diskd->kick, EPOLLIN | EPOLLET, err);
}

/* Returns false where the vmm does not keep to the protocol. */
static bool vmm_message(struct diskd *diskd, const struct fs_queue_setup *setup, int *fds)
{
	struct err err;

	switch (setup->type) {
	case FS_SETUP_START:
		if (setup->queues != DISK_QUEUES || fds[1] < 0)
			return false;
		if (queue_start(diskd, setup, fds, &err) < 0) {
			warn_once(diskd, "start the queue", &err);
			queue_stop(diskd);
		} else {
			queue_serve(diskd);
		}
		return true;
	case FS_SETUP_RESET:
		queue_stop(diskd);
		return write(diskd->vmm_fd, setup, sizeof(*setup)) == (ssize_t)sizeof(*setup);
	default:
		return false;
	}
}

static int on_vmm(struct source *source, uint32_t events, struct err *err)
{
	struct diskd *diskd = source->data;
	struct fs_queue_setup setup;
	int fds[2 * DISK_QUEUES];
	ssize_t n = fd_receive(source->fd, &setup, sizeof(setup), fds, ARRAY_LEN(fds));
	bool good = n == (ssize_t)sizeof(setup) && vmm_message(diskd, &setup, fds);

	for (size_t i = 0; n > 0 && i < ARRAY_LEN(fds); i++)
		fd_replace(&fds[i], -1);
	if (good)
		return 0;
	if (n != 0)
		return err_set(err, EPROTO, "a message of the vmm makes no sense");
	queue_stop(diskd);
	loop_quit(&diskd->loop);
	return 0;
}

struct diskd *diskd_setup(const struct diskd_config *config, struct err *err)
{
	struct diskd *diskd;

	if (lseek(config->image_fd, 0, SEEK_END) < (off_t)(config->sectors * DISK_SECTOR)) {
		err_set(err, 0, "set up the disk: its image became shorter");
		return NULL;
	}
	diskd = xcalloc(1, sizeof(*diskd));
	*diskd = (struct diskd){
		.loop = { .epoll_fd = -1 },
		.vmm_fd = config->vmm_fd,
		.kick_fd = -1,
		.call_fd = -1,
		.vmm = { .fd = config->vmm_fd, .ready = on_vmm, .data = diskd },
		.kick = { .ready = on_kick, .data = diskd },
		.disk = { .fd = config->image_fd,
			  .read_only = config->read_only,
			  .sectors = config->sectors },
	};
	/* A file beyond RLIMIT_FSIZE, a peer that is gone: errors, not the end. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (loop_init(&diskd->loop, err) < 0 ||
	    loop_watch(&diskd->loop, &diskd->vmm, EPOLLIN, err) < 0 ||
	    guest_memory_map(&diskd->memory, config->memory_fd, config->memory_size, err) < 0) {
		err_wrap(err, "set up the disk");
		diskd_free(diskd);
		return NULL;
	}
	return diskd;
}

int diskd_run(struct diskd *diskd, struct err *err)
{
	return loop_run(&diskd->loop, err);
}

void diskd_free(struct diskd *diskd)
{
	queue_stop(diskd);
	guest_memory_unmap(&diskd->memory);
	loop_close(&diskd->loop);
	free(diskd);
}
