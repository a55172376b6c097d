/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose a cgroup is, and who makes it. */
#include "cgroup/owned.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "cgroup/systemd.h"
#include "engine/engine.h"
#include "oci/config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#define MARK	 "cgroup"
#define MARK_MAX 4096

/*
 * Keeps a scope of systemd until the container's first process is in it; one container a process.
 */
static pid_t holder = -1;

static int make(const struct container *container, const struct oci_linux_resources *resources,
		struct err *err)
{
	struct systemd_scope scope = {
		.unit = container->cgroup_unit,
		.path = container->cgroup_path,
		.id = container->id,
		.resources = resources,
		.annotations = container->config->annotations,
		.n_annotations = container->config->n_annotations,
	};

	if (!container->cgroup_unit)
		return cgroup_create(container->cgroup_path, resources, err);
	if (systemd_start(&scope, &holder, err) < 0)
		return -1;
	if (cgroup_adopt(container->cgroup_path, resources, err) == 0)
		return 0;
	cgroup_settle_owned();
	systemd_stop(container->cgroup_unit, NULL);
	return -1;
}

int cgroup_create_owned(const struct container *container,
			const struct oci_linux_resources *resources, struct err *err)
{
	if (!container->cgroup_path)
		return 0;
	if (make(container, resources, err) < 0)
		return -1;
	if (file_replace(container->state_fd, MARK, container->cgroup_path,
			 strlen(container->cgroup_path), 0600, err) == 0)
		return 0;
	err_wrap(err, "mark cgroup %s as the container's", container->cgroup_path);
	cgroup_remove_owned(container, true, NULL);
	return -1;
}

char *cgroup_marked(int state_fd)
{
	size_t size;
	_cleanup_free_ char *path = file_read_regular(state_fd, MARK, MARK_MAX, &size, NULL);

	if (!path || path[0] != '/' || !path[1] || strstr(path, "/.."))
		return NULL;
	return steal(path);
}

void cgroup_settle_owned(void)
{
	if (holder <= 0)
		return;
	kill(holder, SIGKILL);
	proc_wait(holder);
	holder = -1;
}

int cgroup_update_owned(const struct container *container,
			const struct oci_linux_resources *resources, struct err *err)
{
	if (cgroup_update(container->cgroup_path, resources, err) < 0)
		return -1;
	return container->cgroup_unit ? systemd_update(container->cgroup_unit, resources, err) : 0;
}

static bool is_there(const char *path)
{
	_cleanup_fd_ int fd = cgroup_open(path);

	return fd >= 0;
}

/* Its processes have ended; where systemd does not answer, it sees by itself that the cgroup is
 * gone. */
static void forget_scope(const struct container *container)
{
	struct err err = { 0 };

	if (container->cgroup_unit && systemd_stop(container->cgroup_unit, &err) < 0)
		log_debug("%s", err.text);
}

int cgroup_remove_owned(const struct container *container, bool known, struct err *err)
{
	const char *path = container->cgroup_path;

	cgroup_settle_owned();
	if (!path)
		return 0;
	if (!known && faccessat(container->state_fd, MARK, F_OK, 0) < 0)
		cgroup_remove_empty(path);
	else if (cgroup_remove(path, err) < 0)
		return -1;
	if (!is_there(path)) /* else it is another container's */
		forget_scope(container);
	unlinkat(container->state_fd, MARK, 0);
	return 0;
}
