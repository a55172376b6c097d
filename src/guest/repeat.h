/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process that repeats what the host does to shared files: see fs/changes.h. */
#pragma once

/*
 * repeat_start() - start it, if it does not run yet; it ends by itself where the file server has
 * nothing to tell. @trees: where the virtio-fs device is mounted.
 */
void repeat_start(const char *trees);

/* repeat_stop() - let it end: while it waits, no signal would reach it. */
void repeat_stop(const char *trees);

/* repeat_run() - what it does, until it is told to end. */
void repeat_run(const char *trees);
