/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Id-mapped mounts: files have the owners inside a user namespace that they have outside. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct oci_linux;

struct idmap {
	int userns; /* of this mapping, for mounts only; -1: none */
	uid_t uid;  /* of its root, on the host */
	gid_t gid;
};

/*
 * idmap_open() - prepare to map files with linux.uidMappings and gidMappings.
 * @proc: the caller's procfs. Returns 0 (userns is to be closed), or -1 with err set.
 */
int idmap_open(struct idmap *map, const struct oci_linux *config, int proc, struct err *err);

/*
 * idmap_tree() - map a detached tree that was cloned from a path.
 * @recursive: with all mounts in it.
 * An overlay, which the kernel cannot map, is put together anew from its layers, which it can;
 * *tree is then another descriptor. Returns 0, or -1 with err set.
 */
int idmap_tree(const struct idmap *map, int *tree, const char *path, bool recursive,
	       struct err *err);

/* idmap_overlay() - for idmap_tree(): where it is an overlay. Returns a descriptor, or -1. */
int idmap_overlay(const struct idmap *map, const char *path, struct err *err);
