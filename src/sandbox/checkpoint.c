/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Saving the processes of a container to images, by CRIU. */
#include "sandbox/image.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"

#include <stdio.h>
#include <sys/stat.h>

/* A namespace that was given by a path belongs to others: it is named, and not saved. */
static int name_namespace(const struct container *container, struct image_request *request,
			  const char *file, const char *name, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/ns/%s", (int)container->pid, file);
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, errno, "look at %s", path);
	image_add_external(request, "%s[%llu]:%s", file, (unsigned long long)st.st_ino, name);
	return 0;
}

static int name_namespaces(const struct container *container, struct image_request *request,
			   struct err *err)
{
	const struct oci_linux *linux_ = container->config->linux_;

	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++) {
		const struct oci_namespace *ns = &linux_->namespaces[i];

		if (!ns->path || !*ns->path)
			continue;
		if (str_eq(ns->type, "network") &&
		    name_namespace(container, request, "net", IMAGE_NET_NAMESPACE, err) < 0)
			return -1;
		if (str_eq(ns->type, "pid") &&
		    name_namespace(container, request, "pid", IMAGE_PID_NAMESPACE, err) < 0)
			return -1;
	}
	return 0;
}

static int name_mounts(const struct container *container, const struct image_options *image,
		       struct image_request *request, struct err *err)
{
	struct image_mounts mounts = { 0 };
	int r = image_mounts_find(container, &mounts, err);

	for (size_t i = 0; r == 0 && i < mounts.count; i++)
		image_add_external(request, "mnt[%s]:%s", mounts.items[i].place,
				   mounts.items[i].place);
	if (r == 0)
		r = image_mounts_write(&mounts, image->fd, err);
	image_mounts_free(&mounts);
	return r;
}

static int name_streams(const struct container *container, const struct image_options *image,
			struct image_request *request, struct err *err)
{
	char *streams[3] = { 0 };
	int r = image_streams_find(container, request, streams, err);

	if (r == 0)
		r = image_streams_write(streams, image->fd, err);
	for (int i = 0; i < 3; i++)
		free(streams[i]);
	return r;
}

static void fill_in(const struct image_options *image, struct image_request *request)
{
	Criu__Options *options = &request->options;

	request->request.type =
		image->pre_dump ? CRIU__REQUEST_TYPE__PRE_DUMP : CRIU__REQUEST_TYPE__DUMP;
	options->log_file = (char *)"dump.log";
	options->has_leave_running = true;
	options->leave_running = image->leave_running;
	options->has_tcp_skip_in_flight = true;
	options->tcp_skip_in_flight = image->tcp_skip_in_flight;
	options->has_link_remap = true;
	options->link_remap = image->link_remap;
	options->parent_images = (char *)image->parent_path;
	options->has_track_memory = true;
	options->track_memory = image->pre_dump || image->parent_path;
	if (!image->page_server)
		return;
	criu__page_server__init(&request->page_server);
	request->page_server.address = (char *)image->page_server;
	request->page_server.has_port = true;
	request->page_server.port = image->page_port;
	options->page_server = &request->page_server;
}

static int stage(void *context, const char *name, pid_t pid, int fd, struct err *err)
{
	const struct image_options *image = context;

	fd_close_pointer(&fd);
	if (!str_eq(name, "status-ready") || image->status_fd < 0)
		return 0;
	if (fd_write_full(image->status_fd, "", 1) < 0)
		return err_set(err, errno, "write to the status descriptor %d", image->status_fd);
	return 0;
}

int plain_checkpoint(struct container *container, const struct image_options *image,
		     struct err *err)
{
	_cleanup_(image_request_free) struct image_request request = { 0 };
	_cleanup_(image_network_close) struct image_network network = { .socket = -1 };
	_cleanup_free_ char *rootfs = image_rootfs(container), *cgroup = NULL;
	struct criu_call call = { .request = &request.request,
				  .work_path = image->work_path,
				  .context = (void *)image,
				  .stage = stage };

	if (image_check(container, "checkpoint", err) < 0)
		return -1;
	image_request_init(&request, image);
	fill_in(image, &request);
	request.options.has_pid = true;
	request.options.pid = container->pid;
	request.options.root = rootfs;
	if (container->cgroup_path)
		request.options.freeze_cgroup = cgroup = cgroup_directory(container->cgroup_path);
	if (name_namespaces(container, &request, err) < 0 ||
	    name_mounts(container, image, &request, err) < 0 ||
	    name_streams(container, image, &request, err) < 0 ||
	    image_network_open(&network, container->pid, err) < 0 || criu_run(&call, NULL, err) < 0)
		return err_wrap(err, "checkpoint container %s", container->id);
	return image_network_saved(&network, image, err);
}
