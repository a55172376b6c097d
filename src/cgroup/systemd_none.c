/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The systemd cgroup driver where moat was built without libsystemd's headers: what it says. */
#include "cgroup/systemd.h"

const bool systemd_available = false;

static int refuse(struct err *err)
{
	err_set(err, 0, "this moat was built without libsystemd, and has no systemd cgroup driver");
	return err_hint(err, "leave out --systemd-cgroup, or build it with libsystemd-dev");
}

char *systemd_resolve(const struct oci_linux *config, const char *id, char **unit, struct err *err)
{
	refuse(err);
	return NULL;
}

int systemd_annotation_check(const char *name, char *const *allowed, size_t n_allowed,
			     struct err *err)
{
	return 0; /* it is not used */
}

int systemd_start(const struct systemd_scope *scope, pid_t *holder, struct err *err)
{
	return refuse(err);
}

int systemd_update(const char *unit, const struct oci_linux_resources *resources, struct err *err)
{
	return refuse(err);
}

int systemd_stop(const char *unit, struct err *err)
{
	return refuse(err);
}
