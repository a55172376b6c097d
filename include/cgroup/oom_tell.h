/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Telling of a lack of memory. Engines look for it in what this kernel counts and tells of a
 * cgroup, which nobody can write. Where it was another kernel that killed a process of the
 * cgroup's, one that waits for this is killed by this one.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct oom_teller {
	pid_t self, victim; /* 0: there is none, and nothing can be told */
	bool v2;
	int pidfd;     /* of the victim */
	int word;      /* what makes it act */
	int limit;     /* memory.max, memory.limit_in_bytes */
	int score;     /* oom_score_adj of the victim */
	int processes; /* cgroup.procs */
	int below;     /* cgroup.stat, v2: what lies below it */
	int group;     /* memory.oom.group, v2: whether one is killed alone */
	int control;   /* memory.oom_control, v1: whether there is an OOM killer */
	int swapping;  /* memory.swappiness, v1 */
};

#define OOM_TELLER_NONE                                                                            \
	{                                                                                          \
		.pidfd = -1, .word = -1, .limit = -1, .score = -1, .processes = -1, .below = -1,   \
		.group = -1, .control = -1, .swapping = -1                                         \
	}

/*
 * oom_teller_open() - start the victim, and open what it takes: when it is told there need be no
 * right to either.
 * @path: as cgroup_resolve() gave it; the caller is in it.
 * @confine: called in the victim before it waits. It will read, write and end.
 * Returns 0, or -1 with err set, for one where there is no memory controller.
 */
int oom_teller_open(struct oom_teller *teller, const char *path, int (*confine)(struct err *err),
		    struct err *err);

/* oom_teller_close() - end the victim. */
void oom_teller_close(struct oom_teller *teller);

/*
 * oom_teller_tell() - when the caller and the victim are alone in the cgroup: have the victim
 * killed by a limit so low that it does not fit, and give engines the time to hear of it. The limit
 * is as before afterwards (memory.oom.group of v2 is 0); what caches there were have been written
 * back and are gone. Does nothing where there are others in the cgroup, who might be taken.
 */
void oom_teller_tell(struct oom_teller *teller);
