/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a running container can reach of the host's kernel, as the kernel itself has it. */
#pragma once

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct surface_filter {
	struct sock_filter *insns; /* owned */
	size_t count;
};

struct surface_filters {
	struct surface_filter *items; /* owned */
	size_t count;
};

/*
 * surface_filters() - the seccomp filters that a process is under; it is stopped for a moment.
 * Needs CAP_SYS_ADMIN, and a kernel that can checkpoint. Returns 0, or -1 with err set.
 */
int surface_filters(pid_t pid, struct surface_filters *filters, struct err *err);
void surface_filters_free(struct surface_filters *filters);

struct hardening;

/*
 * surface_landlock() - what Landlock keeps a container of level sandbox from on this kernel. The
 * kernel does not tell of a process's rules; this is what moat has asked for.
 * @names: room for SURFACE_LANDLOCK_MAX strings that are not to be freed. Returns their number.
 */
#define SURFACE_LANDLOCK_MAX 8
size_t surface_landlock(const struct hardening *hardening, const char **names);

/*
 * surface_cores() - "own": no two threads of a core run this container and another one at a time;
 * "shared": they may; "none": this kernel or processor has no core scheduling.
 */
const char *surface_cores(pid_t pid);

enum surface_verdict { SURFACE_REFUSED, SURFACE_CHECKED, SURFACE_ALLOWED };

/*
 * surface_call() - what becomes of a system call; CHECKED: it depends on the arguments.
 * @arch: AUDIT_ARCH_* of the caller. @args: six of them, or NULL: whatever they are.
 */
enum surface_verdict surface_call(const struct surface_filters *filters, uint32_t arch,
				  uint32_t number, const uint64_t *args);

/*
 * surface_kernel_files() - files of procfs, sysfs and their kin that a process's root can open for
 * writing. Looked at from inside, by a process of ours with the capabilities given.
 * Returns 0 with an array of strings ended by NULL, all to be freed; or -1 with err set.
 */
int surface_kernel_files(pid_t pid, uint64_t capabilities, char ***paths, size_t *count,
			 struct err *err);
