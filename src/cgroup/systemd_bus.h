/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connection to systemd's manager, with libsystemd's sd-bus. The library is loaded when it is
 * first needed: linked, it would cost every call of moat more than a container's creation.
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct bus;
struct unit_properties;

/* bus_open() - NULL with err set where no systemd answers. To be closed. */
struct bus *bus_open(struct err *err);
void bus_close(struct bus *bus);

static inline void bus_close_pointer(struct bus **bus)
{
	if (*bus)
		bus_close(*bus);
}

/*
 * bus_control_group() - the cgroup that the manager's tree starts in; "" for the root. To be freed.
 */
char *bus_control_group(struct bus *bus, struct err *err);

/*
 * bus_start_scope() - have a scope made with a process in it, and wait until it is there.
 * 0, or -1 with err set (code EEXIST: there is one of that name).
 */
int bus_start_scope(struct bus *bus, const char *unit, const struct unit_properties *properties,
		    pid_t pid, struct err *err);

/* bus_stop() - stop a unit, and wait for it. 0, or -1 with err set (code ENOENT: no such unit). */
int bus_stop(struct bus *bus, const char *unit, struct err *err);

/* bus_reset() - forget that a unit failed. Errors are of no interest. */
void bus_reset(struct bus *bus, const char *unit);

/* bus_set() - change properties of a unit, until it ends. 0, or -1 with err set. */
int bus_set(struct bus *bus, const char *unit, const struct unit_properties *properties,
	    struct err *err);
