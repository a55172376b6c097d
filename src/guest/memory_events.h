/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's OOM killer did (cgroup v2, memory.events). */
#pragma once

#include <stdint.h>

/* memory_events_oom_kills() - processes of the cgroup and below that it killed; 0 if unknown. */
uint64_t memory_events_oom_kills(const char *cgroup);
