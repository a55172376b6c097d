/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saving a container's processes to images and restoring them: what checkpoint.c and restore.c
 * share. CRIU writes the images; beside them lie two files of ours: mounts.json, the mounts that
 * came from outside, and descriptors.json, what the first process had as standard streams.
 */
#pragma once

#include "criu/criu.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Names by which an image calls the namespaces that were given by a path (runc's and crun's, too).
 */
#define IMAGE_NET_NAMESPACE "extRootNetNS"
#define IMAGE_PID_NAMESPACE "extRootPidNS"

int plain_checkpoint(struct container *container, const struct image_options *image,
		     struct err *err);

/*
 * image_restore() - make processes of an image.
 * Fills container->pid with a child of the caller; 0, or -1 with err set and none left.
 */
int image_restore(struct container *container, const struct create_options *options,
		  const struct image_options *image, struct err *err);

/* image_check() - whether images can be had here at all. 0, or -1 with err set. */
int image_check(const struct container *container, const char *action, struct err *err);

/*
 * While a restore goes on, CRIU's pid is in the state directory. image_helper_wait() waits some
 * seconds for its end, after that of who called it: it then undoes what it did by itself, but
 * leaves directories in /tmp where it is killed.
 */
int image_helper_record(const struct container *container, pid_t pid, struct err *err);
void image_helper_wait(const struct container *container);

/* image_rootfs() - path of the root file system in the host; to be freed. */
char *image_rootfs(const struct container *container);

/* A request to CRIU, with what hangs on it. */
struct image_request {
	Criu__Request request;
	Criu__Options options;
	Criu__PageServer page_server;
	Criu__CgroupRoot cgroup_root, *cgroup_roots[1];
	Criu__InheritFd inherit_fd_items[8], *inherit_fds[8];
	Criu__JoinNamespace join_items[4], *joins[4];
};

/* image_request_init() - what does not depend on the direction. Free with image_request_free(). */
void image_request_init(struct image_request *request, const struct image_options *image);
void image_request_free(struct image_request *request);
/* image_add_external() - add a string made from fmt to options.external. */
void image_add_external(struct image_request *request, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* image_add_fd() - let CRIU restore what the image calls key from fd. false: no room. */
bool image_add_fd(struct image_request *request, const char *key, int fd);

/* mounts.json. A mount from outside: where it is inside, and what it is by config.json. */
struct image_mount {
	char *place;
	/* A destination of a bind mount in config.json, a device of the host, or "cgroup:NAME". */
	char *origin;
};

struct image_mounts {
	struct image_mount *items;
	size_t count;
};

/* image_mounts_find() - those of a running container. */
int image_mounts_find(const struct container *container, struct image_mounts *mounts,
		      struct err *err);
int image_mounts_write(const struct image_mounts *mounts, int dirfd, struct err *err);
/* image_mounts_read() - those of an image; of one that another runtime made, by config.json. */
int image_mounts_read(const struct container *container, int dirfd, struct image_mounts *mounts,
		      struct err *err);
/*
 * image_mount_source() - path in the host that it is mounted from now. To be freed; NULL: err set.
 */
char *image_mount_source(const struct container *container, const struct image_mount *mount,
			 struct err *err);
void image_mounts_free(struct image_mounts *mounts);

/*
 * The network that CRIU holds back, of a process. image_network_saved() lets it go after a
 * checkpoint, or keeps in mind what is held back until the connections are restored;
 * image_network_restored() lets that go. 0, or -1 with err set.
 */
struct image_network {
	int socket; /* -1: not open */
	char **tables;
	size_t count;
};

int image_network_open(struct image_network *network, pid_t pid, struct err *err);
int image_network_saved(struct image_network *network, const struct image_options *image,
			struct err *err);
int image_network_restored(const struct container *container, const struct image_options *image,
			   struct err *err);
void image_network_close(struct image_network *network);

/*
 * descriptors.json. image_streams_find() also adds to the request what CRIU would not find inside.
 * The strings are to be freed.
 */
int image_streams_find(const struct container *container, struct image_request *request,
		       char *streams[3], struct err *err);
int image_streams_write(char *const streams[3], int dirfd, struct err *err);
int image_streams_read(int dirfd, char *streams[3], struct err *err);
