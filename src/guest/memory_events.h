/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's OOM killer did (cgroup v2, memory.events), and who waits to hear of it. */
#pragma once

#include "base/loop.h"
#include "rpc/ttrpc.h"

#include <stddef.h>
#include <stdint.h>

#define MEMORY_WATCHERS_MAX 4

struct memory_events {
	struct loop *loop;
	const char *cgroup;
	struct source source; /* fd -1, or NULL loop: not watched yet */
	struct {
		struct ttrpc_call call;
		uint64_t seen;
	} watchers[MEMORY_WATCHERS_MAX];
	size_t count;
};

/* memory_events_oom_kills() - processes of the cgroup and below that it killed; 0 if unknown. */
uint64_t memory_events_oom_kills(const char *cgroup);

/*
 * memory_events_watch() - answer a call of WatchMemory, now or when there is something to tell.
 * @events: zeroes at first. @cgroup: the caller's, until memory_events_close().
 * Returns 0, or -1 with err set: the call was not answered.
 */
int memory_events_watch(struct memory_events *events, struct loop *loop, const char *cgroup,
			struct ttrpc_call call, uint64_t seen, struct err *err);

/*
 * memory_events_tell() - answer those who have not seen the number. A process that memory ran out
 * for may end before the kernel's notice of it is read.
 */
void memory_events_tell(struct memory_events *events);

/* memory_events_close() - calls that still wait get an error. */
void memory_events_close(struct memory_events *events);
