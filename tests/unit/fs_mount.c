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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define BUFFER_SIZE (1u << 21) /* a request of 1 MiB and its headers */

static int serve(struct session *session, int fuse, struct err *err)
{
	static uint8_t in[BUFFER_SIZE], out[BUFFER_SIZE];

	for (;;) {
		struct chain chain = { .readable_count = 1, .writable_count = 1 };
		ssize_t n = read(fuse, in, sizeof(in));
		uint32_t answer;

		if (n < 0 && errno == ENODEV) /* unmounted */
			return 0;
		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_set(err, errno, "read /dev/fuse");
		chain.iov[0] = (struct iovec){ in, (size_t)n };
		chain.iov[1] = (struct iovec){ out, sizeof(out) };
		chain.readable_size = (uint32_t)n;
		chain.writable_size = sizeof(out);
		answer = session_serve(session, &chain);
		if (answer && write(fuse, out, answer) < 0 && errno != ENOENT)
			return err_set(err, errno, "write %u bytes to /dev/fuse", answer);
	}
}

struct options {
	const char *source, *target;
	uint32_t flags;
	size_t open, cached; /* descriptors in all, and of them for nodes; 0: as many as usual */
};

static int run(const struct options *options, struct err *err)
{
	struct fs_tree_add add = { .flags = options->flags };
	struct session *session;
	char text[128];
	int tree = open(options->source, O_PATH | O_CLOEXEC);
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (tree < 0 || fuse < 0)
		return err_set(err, errno, "open %s and /dev/fuse", options->source);
	session = session_new(1u << 20, options->open, err);
	if (!session || session_add_tree(session, &add, tree, err) < 0)
		return -1;
	if (options->cached)
		session->nodes.cached_max = options->cached;
	snprintf(text, sizeof(text),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fuse);
	if (mount("moat", options->target, "fuse.moat", MS_NODEV, text) < 0)
		return err_set(err, errno, "mount on %s", options->target);
	printf("ready\n");
	fflush(stdout);
	signal(SIGXFSZ, SIG_IGN);
	if (session_enter(session, err) < 0 || serve(session, fuse, err) < 0)
		return -1;
	session_free(session);
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
