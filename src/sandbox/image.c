/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to CRIU: what saving and restoring have in common. */
#include "sandbox/image.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LOG_LEVEL      4 /* all but the bytes of pages */
#define HELPER_FILE    "criu.pid"
#define HELPER_WAIT_MS 5000

static const Criu__CgroupMode cgroup_modes[] = {
	[IMAGE_CGROUPS_SOFT] = CRIU__CGROUP_MODE__CGROUP_SOFT,
	[IMAGE_CGROUPS_FULL] = CRIU__CGROUP_MODE__CGROUP_FULL,
	[IMAGE_CGROUPS_STRICT] = CRIU__CGROUP_MODE__CGROUP_STRICT,
	[IMAGE_CGROUPS_IGNORE] = CRIU__CGROUP_MODE__CGROUP_IGNORE,
};

int image_check(const struct container *container, const char *action, struct err *err)
{
	if (!proc_is_machines_root())
		return err_set(err, 0, "%s container %s: CRIU needs root of the machine for that",
			       action, container->id);
	if (container->isolation == ISOLATION_SANDBOX)
		return err_set(err, 0,
			       "%s container %s: level sandbox cannot: restored processes would be "
			       "without its Landlock rules, which CRIU does not know",
			       action, container->id);
	return 0;
}

char *image_rootfs(const struct container *container)
{
	const char *path = container->config->root->path;

	return path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", container->bundle, path);
}

int image_helper_record(const struct container *container, pid_t pid, struct err *err)
{
	unsigned long long ticks;
	uint64_t start;
	char text[64];
	int n;

	if (proc_start_time(pid, &start, NULL) < 0)
		return err_set(err, errno, "look at CRIU's process %d", (int)pid);
	ticks = start;
	n = snprintf(text, sizeof(text), "%d %llu", (int)pid, ticks);
	return file_replace(container->state_fd, HELPER_FILE, text, (size_t)n, 0600, err);
}

void image_helper_wait(const struct container *container)
{
	_cleanup_free_ char *text = file_read(container->state_fd, HELPER_FILE, 64, NULL, NULL);
	char *space = text ? strchr(text, ' ') : NULL;
	_cleanup_fd_ int helper = -1;
	uint64_t pid, start;
	struct pollfd ended;

	if (!space)
		return;
	*space = '\0';
	unlinkat(container->state_fd, HELPER_FILE, 0);
	if (str_to_u64(text, INT32_MAX, &pid) < 0 || str_to_u64(space + 1, UINT64_MAX, &start) < 0)
		return;
	helper = proc_pidfd((pid_t)pid);
	ended = (struct pollfd){ .fd = helper, .events = POLLIN };
	if (helper >= 0 && proc_is_alive((pid_t)pid, start))
		poll(&ended, 1, HELPER_WAIT_MS);
}

void image_request_init(struct image_request *request, const struct image_options *image)
{
	Criu__Options *options = &request->options;

	criu__request__init(&request->request);
	criu__options__init(options);
	request->request.options = options;
	options->inherit_fds = request->inherit_fds;
	options->join_namespaces = request->joins;
	options->images_dir_fd = image->fd;
	options->has_work_dir_fd = true;
	options->work_dir_fd = image->work_fd;
	options->has_log_level = true;
	options->log_level = LOG_LEVEL;
	options->has_notify_scripts = options->notify_scripts = true;
	options->has_orphan_pts_master = options->orphan_pts_master = true;
	options->has_tcp_established = true;
	options->tcp_established = image->tcp_established;
	options->has_ext_unix_sk = true;
	options->ext_unix_sk = image->ext_unix_sk;
	options->has_shell_job = true;
	options->shell_job = image->shell_job;
	options->has_file_locks = true;
	options->file_locks = image->file_locks;
	options->has_auto_dedup = true;
	options->auto_dedup = image->auto_dedup;
	options->has_lazy_pages = true;
	options->lazy_pages = image->lazy_pages;
	options->has_manage_cgroups = true;
	options->manage_cgroups = image->cgroups != IMAGE_CGROUPS_IGNORE;
	options->has_cgroup_mode = true;
	options->cgroup_mode = cgroup_modes[image->cgroups];
	options->has_empty_namespaces = image->empty_namespaces != 0;
	options->empty_namespaces = image->empty_namespaces;
	/* Packets are held back by a table of nftables: CRIU has that without another program. */
	options->has_network_lock = true;
	options->network_lock = CRIU__NETWORK_LOCK__LOCK_NFTABLES;
}

void image_request_free(struct image_request *request)
{
	for (size_t i = 0; i < request->options.n_external; i++)
		free(request->options.external[i]);
	free(request->options.external);
	for (size_t i = 0; i < request->options.n_inherit_fds; i++)
		free(request->inherit_fd_items[i].key);
}

void image_add_external(struct image_request *request, const char *fmt, ...)
{
	Criu__Options *options = &request->options;
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = xstrdup("");
	va_end(ap);
	options->external =
		xrealloc(options->external, options->n_external + 1, sizeof(*options->external));
	options->external[options->n_external++] = text;
}

bool image_add_fd(struct image_request *request, const char *key, int fd)
{
	size_t i = request->options.n_inherit_fds;

	if (i == ARRAY_LEN(request->inherit_fds))
		return false;
	criu__inherit_fd__init(&request->inherit_fd_items[i]);
	request->inherit_fd_items[i].key = xstrdup(key);
	request->inherit_fd_items[i].fd = fd;
	request->inherit_fds[i] = &request->inherit_fd_items[i];
	request->options.n_inherit_fds++;
	return true;
}
