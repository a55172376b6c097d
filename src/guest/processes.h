/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `ps` shows of a container's processes. */
#pragma once

#include "base/err.h"
#include "rpc/agent.pb-c.h"

/*
 * processes_list() - the processes of a cgroup and those below.
 * @out: made with moat__agent__processes_response__init(); processes_free() afterwards, also on
 *       failure.
 *
 * One that ends meanwhile is left out. Returns 0, or -1 with err set.
 */
int processes_list(const char *cgroup, Moat__Agent__ProcessesResponse *out, struct err *err);
void processes_free(Moat__Agent__ProcessesResponse *out);
