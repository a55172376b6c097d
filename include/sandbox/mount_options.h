/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a mount in config.json (mount(8); runtime-spec, config.md "Linux mount options").
 * One table serves the engine and `moat features`.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oci_mount;

/* What the options of one mount come to. */
struct mount_options {
	uint64_t set, clear;			 /* MOUNT_ATTR_* of the mount */
	uint64_t recursive_set, recursive_clear; /* the same for it and all mounts below it */
	uint64_t propagation; /* MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE; 0 */
	bool propagation_recursive;
	bool bind, bind_recursive; /* bind: also for bind_recursive */
	bool remount;
	bool idmap, idmap_recursive; /* idmap: also for idmap_recursive, and where there are maps */
	bool copy_up;		     /* tmpcopyup: a tmpfs starts with what it hides */
	const char *
		*data; /* for the file system itself; strings of the mount, the array is owned */
	size_t n_data;
	/* Used while the mount is made. */
	int source; /* detached mount that the parent opened; -1 */
	int sealed; /* becomes read-only when all that must be in it is there; -1 */
};

/*
 * mount_options_read() - work out a mount's options.
 * Unknown ones are for the file system; with a bind mount they are an error.
 * Returns 0, to be freed, or -1 with err set.
 */
int mount_options_read(const struct oci_mount *mount, struct mount_options *options,
		       struct err *err);
void mount_options_free(struct mount_options *options);

/* Names of all the options that are not the file system's own; ends with NULL. */
const char *const *mount_option_names(void);
