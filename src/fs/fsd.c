/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process: one thread, one loop. The vmm hands over the queues, the monitor the trees; a kick
 * takes requests from a queue, serves them one after the other and raises one interrupt for many.
 * What its jail has to leave it is listed in fs/fsd.h.
 */
#include "fs/fsd.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "fs/session.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define BATCH 16u  /* requests served before those done are signalled, at the latest */
#define TURN  256u /* requests served before the other queues and the monitor have their turn */

/* Descriptors that are neither nodes nor handles: the loop, sockets, eventfds, the log. */
#define FDS_RESERVED 64u
#define FDS_MAX	     65536u

/* A guest's own inode takes it a KiB or more, so it cannot hold more nodes than this. */
#define NODE_GUEST_BYTES 1024u
#define NODES_MIN	 65536u
#define NODES_MAX	 4194304u

struct fsd_queue {
	struct fsd *fsd;
	struct virtqueue ring;
	struct source kick;
	int kick_fd, call_fd;
	bool has_parked;
	struct chain parked; /* a request that waits */
};

struct fsd {
	struct loop loop;
	struct source vmm, monitor, watches;
	int vmm_fd, monitor_fd;
	struct guest_memory memory;
	struct session *session;
	struct fsd_queue queues[FSD_QUEUES];
	bool entered;
	bool warned; /* of a driver that breaks its rings */
};

static void signal_driver(struct fsd_queue *queue)
{
	uint64_t one = 1;

	if (virtqueue_should_signal(&queue->ring))
		(void)!write(queue->call_fd, &one, sizeof(one));
}

static void queues_stop(struct fsd *fsd)
{
	for (size_t i = 0; i < FSD_QUEUES; i++) {
		struct fsd_queue *queue = &fsd->queues[i];

		if (queue->has_parked)
			session_unpark(fsd->session);
		queue->has_parked = false;
		virtqueue_deactivate(&queue->ring);
		loop_forget(&fsd->loop, &queue->kick);
		fd_replace(&queue->kick_fd, -1);
		fd_replace(&queue->call_fd, -1);
	}
}

/* The guest could fill the log otherwise. */
static void warn_once(struct fsd *fsd, const char *what, const struct err *err)
{
	if (!fsd->warned)
		log_warning("fsd: %s: %s; the file server waits for a reset", what, err->text);
	fsd->warned = true;
}

/* The session kicks the queue when the request that waits has something to wait for no more. */
static void serve_parked(struct fsd_queue *queue)
{
	struct session *session = queue->fsd->session;
	uint32_t written;

	if (!queue->has_parked || !session_has_changes(session))
		return;
	written = session_serve_parked(session, &queue->parked);
	if (written == SESSION_PARKED)
		return;
	queue->has_parked = false;
	virtqueue_push(&queue->ring, queue->parked.head, written);
}

static void park(struct fsd_queue *queue, const struct chain *chain)
{
	queue->parked = *chain;
	queue->has_parked = true;
	session_park(queue->fsd->session, queue->kick_fd);
	serve_parked(queue); /* that may have come before it could be kicked */
}

static int on_watches(struct source *source, uint32_t events, struct err *err)
{
	struct fsd *fsd = source->data;

	session_watch(fsd->session);
	return 0;
}

static void queue_serve(struct fsd_queue *queue)
{
	const uint64_t one = 1;
	struct err err;
	struct chain chain;
	unsigned int done = 0;
	int r = 0;

	serve_parked(queue);
	while (done < TURN && (r = virtqueue_pop(&queue->ring, &chain, &err)) > 0) {
		uint32_t written = session_serve(queue->fsd->session, &chain);

		if (written == SESSION_PARKED)
			park(queue, &chain);
		else
			virtqueue_push(&queue->ring, chain.head, written);
		if (++done % BATCH == 0)
			signal_driver(queue);
	}
	signal_driver(queue);
	if (r > 0) /* perhaps there are more, of which no kick will tell */
		(void)!write(queue->kick_fd, &one, sizeof(one));
	if (r < 0) {
		/* The driver broke its own ring. No more is taken until a reset. */
		warn_once(queue->fsd, "serve a queue", &err);
		queues_stop(queue->fsd);
	}
}

static int on_kick(struct source *source, uint32_t events, struct err *err)
{
	queue_serve(source->data);
	return 0;
}

static int queue_start(struct fsd *fsd, size_t index, const struct fs_queue_setup *setup, int *fds,
		       struct err *err)
{
	struct fsd_queue *queue = &fsd->queues[index];

	queue->kick_fd = fd_steal(&fds[index]);
	queue->call_fd = fd_steal(&fds[setup->queues + index]);
	queue->ring.state = (struct virtqueue_state){ .size = setup->queue[index].size,
						      .ready = 1,
						      .desc = setup->queue[index].desc,
						      .avail = setup->queue[index].avail,
						      .used = setup->queue[index].used };
	if (virtqueue_activate(&queue->ring, &fsd->memory, setup->features, err) < 0)
		return -1;
	queue->kick.fd = queue->kick_fd;
	/* By edge: each kick is an event of its own and the counter needs no reading. */
	return loop_watch(&fsd->loop, &queue->kick, EPOLLIN | EPOLLET, err);
}

static void queues_start(struct fsd *fsd, const struct fs_queue_setup *setup, int *fds)
{
	struct err err;

	queues_stop(fsd);
	session_reset(fsd->session);
	for (size_t i = 0; i < setup->queues; i++) {
		if (queue_start(fsd, i, setup, fds, &err) < 0) {
			warn_once(fsd, "start a queue", &err);
			queues_stop(fsd);
			return;
		}
	}
	for (size_t i = 0; i < setup->queues; i++)
		queue_serve(&fsd->queues[i]);
}

/* Returns false where the vmm does not keep to the protocol. */
static bool vmm_message(struct fsd *fsd, const struct fs_queue_setup *setup, int *fds)
{
	switch (setup->type) {
	case FS_SETUP_START:
		if (!setup->queues || setup->queues > FSD_QUEUES || fds[2 * setup->queues - 1] < 0)
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
	int fds[2 * FSD_QUEUES];
	ssize_t n = fd_receive(source->fd, &setup, sizeof(setup), fds, ARRAY_LEN(fds));
	bool good = n == (ssize_t)sizeof(setup) && vmm_message(fsd, &setup, fds);

	for (size_t i = 0; n > 0 && i < ARRAY_LEN(fds); i++)
		fd_replace(&fds[i], -1);
	if (good)
		return 0;
	if (n != 0)
		log_warning("fsd: a message of the vmm that makes no sense");
	queues_stop(fsd);
	loop_forget(&fsd->loop, source);
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
		loop_quit(&fsd->loop);
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

/* Where there is nothing to watch with, the guest hears of nothing. */
static int watches_start(struct fsd *fsd, uid_t uid, struct err *err)
{
	watches_init(&fsd->session->watches, uid);
	fsd->watches =
		(struct source){ .fd = fsd->session->watches.fd, .ready = on_watches, .data = fsd };
	return fsd->watches.fd < 0 ? 0 : loop_watch(&fsd->loop, &fsd->watches, EPOLLIN, err);
}

struct fsd *fsd_setup(const struct fsd_config *config, struct err *err)
{
	uint64_t nodes = config->memory_size / NODE_GUEST_BYTES;
	struct fsd *fsd = xcalloc(1, sizeof(*fsd));

	fsd->loop.epoll_fd = -1;
	fsd->vmm_fd = config->vmm_fd;
	fsd->monitor_fd = config->monitor_fd;
	fsd->vmm = (struct source){ .fd = config->vmm_fd, .ready = on_vmm, .data = fsd };
	fsd->monitor =
		(struct source){ .fd = config->monitor_fd, .ready = on_monitor, .data = fsd };
	for (size_t i = 0; i < FSD_QUEUES; i++) {
		struct fsd_queue *queue = &fsd->queues[i];

		queue->fsd = fsd;
		queue->kick_fd = queue->call_fd = -1;
		queue->kick = (struct source){ .ready = on_kick, .data = queue };
	}
	nodes = nodes < NODES_MIN ? NODES_MIN : nodes > NODES_MAX ? NODES_MAX : nodes;
	fsd->session = session_new((size_t)nodes, descriptors(), err);
	if (!fsd->session || loop_init(&fsd->loop, err) < 0 ||
	    watches_start(fsd, config->watches_uid, err) < 0 ||
	    loop_watch(&fsd->loop, &fsd->vmm, EPOLLIN, err) < 0 ||
	    loop_watch(&fsd->loop, &fsd->monitor, EPOLLIN, err) < 0 ||
	    guest_memory_map(&fsd->memory, config->memory_fd, config->memory_size, err) < 0) {
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
	if (session_enter(fsd->session, err) < 0)
		return -1;
	fsd->entered = true;
	return 0;
}

int fsd_run(struct fsd *fsd, struct err *err)
{
	if (!fsd->entered && fsd_enter(fsd, err) < 0)
		return -1;
	return loop_run(&fsd->loop, err);
}

void fsd_free(struct fsd *fsd)
{
	if (!fsd)
		return;
	queues_stop(fsd);
	session_free(fsd->session);
	guest_memory_unmap(&fsd->memory);
	loop_close(&fsd->loop);
	free(fsd);
}
