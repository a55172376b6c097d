/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths below a root that somebody else controls. Every resolution starts from a directory
 * descriptor and goes through openat2(2), so that a symlink, absolute or with "..", swapped in at
 * any moment, cannot lead out of the root.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * path_open_in_root() - open a path as seen by a process whose root is rootfd.
 * @resolve: further RESOLVE_ flags (linux/openat2.h), RESOLVE_NO_SYMLINKS for one.
 *
 * Magic links are never followed. Returns a close-on-exec descriptor, or -1 with err set.
 */
int path_open_in_root(int rootfd, const char *path, int flags, mode_t mode, uint64_t resolve,
		      struct err *err);

/*
 * path_make_in_root() - make sure that a directory (or a regular file) is there, with its parents.
 * @directory: make a directory of the given mode; else an empty file. Parents get mode 0755.
 *
 * An existing symlink is followed inside the root; one that dangles is an error, as is a
 * directory where a file is wanted or the other way round.
 * Returns an O_PATH descriptor of the final object, or -1 with err set.
 */
int path_make_in_root(int rootfd, const char *path, bool directory, mode_t mode, struct err *err);

/*
 * path_not_made() - say so, with errno for the reason, and what helps where that is a right that
 * root of a user namespace lacks. Returns -1.
 */
int path_not_made(const char *what, const char *path, struct err *err);

/*
 * path_is_clean() - true where a relative path has no empty, "." or ".." component.
 */
bool path_is_clean(const char *path);

/* path_remove_tree() - remove a directory and all in it, never following a symlink or crossing a
 * mount. Something already gone is no error. Returns 0, or -1 with err set. */
int path_remove_tree(int dirfd, const char *name, struct err *err);
