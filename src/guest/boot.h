/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first and the last things that PID 1 does. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define BOOT_TREES  "/run/moat/fs" /* where the virtio-fs device is mounted */
#define BOOT_CGROUP "/.first"	   /* of the first container; no id begins with a dot */

/* boot_streams() - give descriptors 0, 1 and 2 a meaning: nothing, and the kernel's log. */
void boot_streams(void);

/* boot_modules() - a distribution's kernel: load what was imported with it. */
void boot_modules(void);

/*
 * boot_mounts() - a root that can be pivoted from, and the kernel's file systems, with a cgroup for
 * the first container: to make one takes long, and here it is part of a template. 0, or -1.
 */
int boot_mounts(struct err *err);

/* boot_trees() - the files that the host lends. 0, or -1 with err set. */
int boot_trees(struct err *err);

/*
 * boot_protect() - keep the workload's hands and the OOM killer's off the agent, and let it answer
 * where thousands of processes want the processor. 0, or -1.
 */
int boot_protect(struct err *err);

/*
 * boot_memory() - let programs reserve more than the machine has, as on a host that is larger than
 * the container's limit: what counts is what they use. And have most of the free memory where it is
 * reported to the host. 0, or -1.
 */
int boot_memory(struct err *err);

/*
 * boot_tidy() - where the vmm asks for it (VMM_TIDY): have zeros in free memory, which then needs
 * no place in a template, nor in any machine that starts from it.
 */
void boot_tidy(void);

/* boot_loopback() - set the interface lo up. Returns 0, or -1 with err set. */
int boot_loopback(struct err *err);

/*
 * boot_settle() - kill every other process, wait for their ends a while, write back what is held.
 * Once: what is called later finds nothing to do.
 */
void boot_settle(void);

/* boot_end() - end the machine: what is not synced is lost. Does not return. */
_Noreturn void boot_end(void);

/* greet() - take the clock, entropy and name that the host offers; see struct machine. */
void greet(int64_t realtime_ns, const void *entropy, size_t size, const char *hostname);
