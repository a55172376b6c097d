/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process. Its main thread hears the vmm, which hands over the queues, and the monitor, which
 * adds trees, and serves the guest; where the guest has several request queues each has a thread of
 * its own, and what is left here is the queue for what is urgent.
 * What its jail has to leave it is listed in fs/fsd.h.
 */
#include "fs/fsd.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "fs/queue.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

/* Descriptors that are neither nodes nor handles: the loop, sockets, eventfds, the log. */
#define FDS_RESERVED 64u
#define FDS_MAX	     65536u

/* A guest's own inode takes it a KiB or more, so it cannot hold more nodes than this. */
#define NODE_GUEST_BYTES 1024u
#define NODES_MIN	 65536u
#define NODES_MAX	 4194304u

struct fsd {
	struct source vmm, monitor, watches;
	int vmm_fd, monitor_fd;
	struct guest_memory memory;
	struct session *session;
	struct fs_thread main;
	struct fs_queue queues[FSD_QUEUES_MAX];
	struct fs_thread threads[FSD_REQUEST_QUEUES_MAX];
	unsigned int request_queues;
	unsigned int started; /* of the threads */
	bool entered;
	bool warned; /* of a driver that gives rings that cannot be */
};

/* All are told before one is waited for: a request may wait for what another thread does. */
static void queues_stop(struct fsd *fsd)
{
	for (size_t i = 0; i < FSD_QUEUES_MAX; i++)
		fs_queue_end(&fsd->queues[i]);
	for (size_t i = 0; i < FSD_QUEUES_MAX; i++)
		fs_queue_stop(&fsd->queues[i]);
}

static int queue_start(struct fsd *fsd, size_t index, const struct fs_queue_setup *setup, int *fds,
		       struct err *err)
{
	struct virtqueue_state state = { .size = setup->queue[index].size,
					 .ready = 1,
					 .desc = setup->queue[index].desc,
					 .avail = setup->queue[index].avail,
					 .used = setup->queue[index].used };

	return fs_queue_start(&fsd->queues[index], &fsd->memory, &state, setup->features,
			      fd_steal(&fds[index]), fd_steal(&fds[setup->queues + index]), err);
}

static void queues_start(struct fsd *fsd, const struct fs_queue_setup *setup, int *fds)
{
	struct err err;

	queues_stop(fsd);
	session_reset(fsd->session);
	for (size_t i = 0; i < setup->queues; i++) {
		if (queue_start(fsd, i, setup, fds, &err) == 0)
			continue;
		/* The guest could fill the log otherwise. */
		if (!fsd->warned)
			log_warning("fsd: start a queue: %s; the file server waits for a reset",
				    err.text);
		fsd->warned = true;
		queues_stop(fsd);
		return;
	}
}

/* Returns false where the vmm does not keep to the protocol. */
static bool vmm_message(struct fsd *fsd, const struct fs_queue_setup *setup, int *fds)
{
	switch (setup->type) {
	case FS_SETUP_START:
		if (!setup->queues || setup->queues > 1 + fsd->request_queues ||
		    fds[2 * setup->queues - 1] < 0)
			return false;
		queues_start(fsd, setup, fds);
		return true;
	case FS_SETUP_RESET:
		queues_stop(fsd);
		session_reset(fsd->session);
		return write(fsd->vmm_fd, setup, sizeof(*setup)) == (ssize_t)sizeof(*setup);
	default:
		return false;
	}
}

static int on_vmm(struct source *source, uint32_t events, struct err *err)
{
	struct fsd *fsd = source->data;
	struct fs_queue_setup setup;
	int fds[2 * FSD_QUEUES_MAX];
	ssize_t n = fd_receive(source->fd, &setup, sizeof(setup), fds, ARRAY_LEN(fds));
	bool good = n == (ssize_t)sizeof(setup) && vmm_message(fsd, &setup, fds);

	for (size_t i = 0; n > 0 && i < ARRAY_LEN(fds); i++)
		fd_replace(&fds[i], -1);
	if (good)
		return 0;
	if (n != 0)
		log_warning("fsd: a message of the vmm that makes no sense");
	queues_stop(fsd);
	loop_forget(&fsd->main.loop, source);
	/* It must not wait for an answer that will not come. */
	fd_replace(&fsd->vmm_fd, -1);
	return 0;
}

static int on_monitor(struct source *source, uint32_t events, struct err *err)
{
	struct fsd *fsd = source->data;
	struct fs_tree_add add;
	struct err why;
	int fd;
	ssize_t n = fd_receive(source->fd, &add, sizeof(add), &fd, 1);

	if (n <= 0) {
		loop_quit(&fsd->main.loop);
		return n < 0 ? err_set(err, errno, "receive a tree from the monitor") : 0;
	}
	if (n != (ssize_t)sizeof(add)) {
		fd_replace(&fd, -1);
		return err_set(err, EPROTO, "receive a tree from the monitor");
	}
	if (session_add_tree(fsd->session, &add, fd, &why) < 0) {
		log_error("fsd: %s", why.text);
		add.index = UINT32_MAX;
	}
	if (write(source->fd, &add, sizeof(add)) < 0)
		return err_set(err, errno, "answer the monitor");
	return 0;
}

/* As many descriptors as the hard limit gives. */
static size_t descriptors(void)
{
	struct rlimit limit;
	size_t most, rest;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return FDS_RESERVED;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	most = limit.rlim_max < FDS_MAX ? (size_t)limit.rlim_max : FDS_MAX;
	/* Each tree holds one, too. */
	rest = FDS_RESERVED + (most / 4 < FSD_TREES_MAX ? most / 4 : FSD_TREES_MAX);
	return most > 2 * rest ? most - rest : most / 2;
}

/* The queue for what is urgent is served here, and a request queue that is alone. */
static void assign_queues(struct fsd *fsd)
{
	fs_queue_init(&fsd->queues[0], &fsd->main);
	for (size_t i = 0; i < FSD_REQUEST_QUEUES_MAX; i++)
		fs_queue_init(&fsd->queues[1 + i],
			      fsd->request_queues > 1 ? &fsd->threads[i] : &fsd->main);
}

static int on_watches(struct source *source, uint32_t events, struct err *err)
{
	struct fsd *fsd = source->data;

	session_watch(fsd->session);
	return 0;
}

/* Where there is nothing to watch with, the guest hears of nothing. */
static int watches_start(struct fsd *fsd, uid_t uid, struct err *err)
{
	watches_init(&fsd->session->watches, uid);
	fsd->watches =
		(struct source){ .fd = fsd->session->watches.fd, .ready = on_watches, .data = fsd };
	return fsd->watches.fd < 0 ? 0 : loop_watch(&fsd->main.loop, &fsd->watches, EPOLLIN, err);
}

struct fsd *fsd_setup(const struct fsd_config *config, struct err *err)
{
	uint64_t nodes = config->memory_size / NODE_GUEST_BYTES;
	struct fsd *fsd = xcalloc(1, sizeof(*fsd));
	struct loop *loop = &fsd->main.loop;
	bool held, ready;

	loop->epoll_fd = -1;
	fsd->vmm_fd = config->vmm_fd;
	fsd->monitor_fd = config->monitor_fd;
	fsd->vmm = (struct source){ .fd = config->vmm_fd, .ready = on_vmm, .data = fsd };
	fsd->monitor =
		(struct source){ .fd = config->monitor_fd, .ready = on_monitor, .data = fsd };
	fsd->request_queues = config->request_queues ? config->request_queues : 1;
	assign_queues(fsd);
	nodes = nodes < NODES_MIN ? NODES_MIN : nodes > NODES_MAX ? NODES_MAX : nodes;
	held = huge_pages_hold();
	fsd->session = session_new((size_t)nodes, descriptors(), err);
	fsd->main.session = fsd->session;
	ready = fsd->session && loop_init(loop, err) == 0 &&
		watches_start(fsd, config->watches_uid, err) == 0 &&
		loop_watch(loop, &fsd->vmm, EPOLLIN, err) == 0 &&
		loop_watch(loop, &fsd->monitor, EPOLLIN, err) == 0 &&
		guest_memory_map(&fsd->memory, config->memory_fd, config->memory_size, err) == 0;
	huge_pages_release(held);
	if (!ready) {
		err_wrap(err, "set up the file server");
		fsd_free(fsd);
		return NULL;
	}
	return fsd;
}

int fsd_enter(struct fsd *fsd, struct err *err)
{
	/* A file beyond RLIMIT_FSIZE, a peer that is gone: errors, not the end. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* One heap, grown by brk(2) alone: nothing is mapped or unmapped while it serves. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	if (session_enter(fsd->session, &fsd->main.worker, err) < 0)
		return -1;
	while (fsd->request_queues > 1 && fsd->started < fsd->request_queues) {
		if (fs_thread_start(&fsd->threads[fsd->started], fsd->session, err) < 0)
			return -1;
		fsd->started++;
	}
	fsd->entered = true;
	return 0;
}

int fsd_run(struct fsd *fsd, struct err *err)
{
	if (!fsd->entered && fsd_enter(fsd, err) < 0)
		return -1;
	return loop_run(&fsd->main.loop, err);
}

void fsd_free(struct fsd *fsd)
{
	if (!fsd)
		return;
	queues_stop(fsd);
	for (unsigned int i = 0; i < fsd->started; i++)
		fs_thread_stop(&fsd->threads[i]);
	session_free(fsd->session);
	worker_free(&fsd->main.worker);
	guest_memory_unmap(&fsd->memory);
	loop_close(&fsd->main.loop);
	free(fsd);
}
