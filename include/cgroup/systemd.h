/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The systemd cgroup driver: a container's cgroup is a scope, which systemd makes and knows the
 * limits of, with what is below delegated to us (systemd.io/CGROUP_DELEGATION, the D-Bus interface
 * org.freedesktop.systemd1). Root asks the system's manager, others their own.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct oci_linux;
struct oci_linux_resources;
struct oci_pair;

#define SYSTEMD_ANNOTATION "org.systemd.property."

/* Whether this moat was built with it. */
extern const bool systemd_available;

/*
 * systemd_resolve() - the scope of a container, by its cgroupsPath "SLICE:PREFIX:NAME".
 * @config: may be NULL; without a cgroupsPath it is "moat-ID.scope".
 * @unit: set to the scope's name, to be freed.
 *
 * Returns the path of its cgroup, to be freed; NULL with err set, also where no systemd answers.
 */
char *systemd_resolve(const struct oci_linux *config, const char *id, char **unit, struct err *err);

/*
 * systemd_annotation_has_name() - whether behind SYSTEMD_ANNOTATION, with which it begins, stands
 * what can be a property of a unit: letters.
 */
bool systemd_annotation_has_name(const char *annotation);

/*
 * systemd_annotation_check() - whether an annotation org.systemd.property.NAME may be used.
 * @allowed, @n_allowed: the names that the operator's file lists.
 * A few that can do no harm always may. 0, or -1 with err set.
 */
int systemd_annotation_check(const char *name, char *const *allowed, size_t n_allowed,
			     struct err *err);

struct systemd_scope {
	const char *unit, *path, *id;
	const struct oci_linux_resources *resources; /* may be NULL */
	const struct oci_pair *annotations;
	size_t n_annotations;
};

/*
 * systemd_start() - have the scope made, and wait for it.
 * @holder: set to a child of the caller that keeps it, as an empty scope ends: to be killed and
 *          waited for once the container's first process is in it.
 *
 * Returns 0, or -1 with err set and nothing left.
 */
int systemd_start(const struct systemd_scope *scope, pid_t *holder, struct err *err);

/* systemd_update() - tell systemd of new limits; those of the files are for cgroup_update(). */
int systemd_update(const char *unit, const struct oci_linux_resources *resources, struct err *err);

/* systemd_stop() - forget a scope whose processes have ended. One that is gone is no error. */
int systemd_stop(const char *unit, struct err *err);
