/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test only: mounts what the file server serves on this host, by joining its dispatcher to
 * /dev/fuse in place of a virtqueue. It serves SOURCE as tree 0 until the mount is taken away.
 */
#include "base/fd.h"
#include "base/log.h"
#include "fs/session.h"

#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define BUFFER_SIZE (1u << 21) /* a request of 1 MiB and its headers */

struct buffers {
	uint8_t in[BUFFER_SIZE], out[BUFFER_SIZE];
};

static int answer(int fuse, const struct buffers *buffers, uint32_t size, struct err *err)
{
	if (size && write(fuse, buffers->out, size) < 0 && errno != ENOENT)
		return err_set(err, errno, "write %u bytes to /dev/fuse", size);
	return 0;
}

/* A request that waits lies in `parked`, of readable_count 0 while there is none. */
static int serve_parked(struct session *session, struct worker *worker, int fuse,
			struct chain *parked, const struct buffers *buffers, struct err *err)
{
	uint32_t size;

	if (!parked->readable_count || !session_has_changes(session))
		return 0;
	size = session_serve_parked(session, worker, parked);
	if (size == SESSION_PARKED)
		return 0;
	parked->readable_count = 0;
	return answer(fuse, buffers, size, err);
}

static int serve(struct session *session, struct worker *worker, int fuse, struct err *err)
{
	static struct buffers now, waiting;
	struct pollfd fds[] = { { fuse, POLLIN, 0 }, { session->watches.fd, POLLIN, 0 } };
	struct chain parked = { 0 };

	while (poll(fds, 2, -1) > 0) {
		struct chain chain = { .readable_count = 1, .writable_count = 1 };
		uint32_t size;
		ssize_t n;

		if (fds[1].revents)
			session_watch(session);
		if (serve_parked(session, worker, fuse, &parked, &waiting, err) < 0)
			return -1;
		if (!fds[0].revents)
			continue;
		n = read(fuse, now.in, sizeof(now.in));
		if (n < 0 && errno == ENODEV) /* unmounted */
			return 0;
		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_set(err, errno, "read /dev/fuse");
		chain.iov[0] = (struct iovec){ now.in, (size_t)n };
		chain.iov[1] = (struct iovec){ now.out, sizeof(now.out) };
		chain.readable_size = (uint32_t)n;
		chain.writable_size = sizeof(now.out);
		size = session_serve(session, worker, &chain);
		if (size == SESSION_PARKED) {
			memcpy(&waiting.in, &now.in, (size_t)n);
			parked = chain;
			parked.iov[0].iov_base = waiting.in;
			parked.iov[1].iov_base = waiting.out;
		} else if (answer(fuse, &now, size, err) < 0) {
			return -1;
		}
		if (serve_parked(session, worker, fuse, &parked, &waiting, err) < 0)
			return -1;
	}
	return err_set(err, errno, "poll /dev/fuse");
}

struct options {
	const char *source, *target;
	uint32_t flags;
	size_t open, cached; /* descriptors in all, and of them for nodes; 0: as many as usual */
};

static int run(const struct options *options, struct err *err)
{
	struct fs_tree_add add = { .flags = options->flags };
	static struct worker worker;
	struct session *session;
	char text[128];
	int tree = open(options->source, O_PATH | O_CLOEXEC);
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (tree < 0 || fuse < 0)
		return err_set(err, errno, "open %s and /dev/fuse", options->source);
	session = session_new(1u << 20, options->open, err);
	if (!session || session_add_tree(session, &add, tree, err) < 0)
		return -1;
	watches_init(&session->watches, WATCHES_UID_OWN);
	if (options->cached)
		session->nodes.cached_max = options->cached;
	snprintf(text, sizeof(text),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fuse);
	if (mount("moat", options->target, "fuse.moat", MS_NODEV, text) < 0)
		return err_set(err, errno, "mount on %s", options->target);
	printf("ready\n");
	fflush(stdout);
	signal(SIGXFSZ, SIG_IGN);
	if (session_enter(session, &worker, err) < 0 || serve(session, &worker, fuse, err) < 0)
		return -1;
	session_free(session);
	worker_free(&worker);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option known[] = { { "read-only", no_argument, NULL, 'r' },
					       { "shared", no_argument, NULL, 's' },
					       { "open", required_argument, NULL, 'o' },
					       { "cached", required_argument, NULL, 'c' },
					       { 0 } };
	struct options options = { .open = 4096 };
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (option == 'r')
			options.flags |= FS_TREE_READ_ONLY;
		else if (option == 's')
			options.flags |= FS_TREE_SHARED;
		else if (option == 'o')
			options.open = (size_t)atoi(optarg);
		else if (option == 'c')
			options.cached = (size_t)atoi(optarg);
	}
	if (argc - optind != 2) {
		fprintf(stderr,
			"usage: fs_mount [--read-only] [--shared] [--open N] [--cached N] SOURCE "
			"MOUNTPOINT\n");
		return 2;
	}
	options.source = argv[optind];
	options.target = argv[optind + 1];
	if (run(&options, &err) < 0) {
		log_error("%s", err.text);
		return 1;
	}
	return 0;
}
