/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The root file system and the sources of bind mounts, as detached mounts for fsd: no host mount is
 * made for them, so none can leak.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oci_config;
struct oci_mount;

/* A directory or file of the host that the container gets. */
struct bind {
	const char *source; /* absolute, or below the bundle; of a mount, may be NULL */
	bool recursive, read_only;
};

/* bind_of_mount() - Returns whether a mount is a bind mount, and how. */
bool bind_of_mount(const struct oci_mount *mount, struct bind *bind);

/*
 * bind_open() - a detached mount of it: nodev, nosuid, noexec and private. Returns it, O_PATH, or
 * -1 with err set.
 */
int bind_open(const char *bundle, const struct bind *bind, struct err *err);

struct tree {
	int fd;	   /* O_PATH */
	bool file; /* a single file */
	bool read_only;
	uint32_t mount; /* index in the config's mounts; of no meaning for the root */
};

/* tree[0] is the root, with fd -1 where that is a disk; an index here is the entry's name in fsd's
 * top directory. */
struct trees {
	struct tree *tree;
	size_t count;
};

/*
 * trees_open() - open the root and every bind mount's source.
 * @bundle: where relative paths start.
 *
 * On the host's side they are nodev, nosuid and noexec, private, and read-only where the config
 * says so. Returns 0, or -1 with err set; release with trees_close() in both cases.
 */
int trees_open(struct trees *trees, const struct oci_config *config, const char *bundle,
	       struct err *err);
void trees_close(struct trees *trees);
