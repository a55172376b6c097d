/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Making the processes of a container from images, by CRIU. It runs in a mount namespace of its own
 * and in the container's cgroup, so that nothing of it is left in the host, however it ends.
 */
#include "sandbox/image.h"
#include "sandbox/control.h"
#include "sandbox/hooks.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FIRST_FD 10 /* of those that CRIU inherits */

struct restoration {
	const struct container *container;
	const struct create_options *options;
	const struct image_options *image;
	char *rootfs;
	struct image_request request;
	int channel[2]; /* from CRIU's process to us, until it runs */
};

/* A mount point must be what it was: a link would lead the mount to another place. */
static int make_place(int root, const char *place, bool directory, struct err *err)
{
	_cleanup_fd_ int fd = path_open_in_root(root, place, O_PATH, 0, RESOLVE_NO_SYMLINKS, err);

	if (fd < 0 && err->code == ELOOP)
		return err_set(err, 0,
			       "%s in the root file system is, or lies behind, a symbolic link: "
			       "refusing to mount there",
			       place);
	if (fd < 0 && err->code == ENOENT)
		fd = path_make_in_root(root, place, directory, directory ? 0755 : 0644, err);
	return fd < 0 ? -1 : 0;
}

/* True for what lies on a file system that the container made, which is in the image. */
static bool lies_on_mount(const struct oci_config *config, const char *place)
{
	for (size_t i = 0; i < config->n_mounts; i++) {
		const char *destination = config->mounts[i].destination;
		size_t n = strlen(destination);

		if (n > 1 && strncmp(place, destination, n) == 0 && place[n] == '/')
			return true;
	}
	return false;
}

static int add_mounts(struct restoration *r, int root, const struct image_mounts *mounts,
		      struct err *err)
{
	for (size_t i = 0; i < mounts->count; i++) {
		const struct image_mount *mount = &mounts->items[i];
		_cleanup_free_ char *source = image_mount_source(r->container, mount, err);
		struct stat st;

		if (!source)
			return -1;
		if (stat(source, &st) < 0)
			return err_set(err, errno, "find the source %s of the mount at %s", source,
				       mount->place);
		if (!lies_on_mount(r->container->config, mount->place) &&
		    make_place(root, mount->place, S_ISDIR(st.st_mode), err) < 0)
			return -1;
		image_add_external(&r->request, "mnt[%s]:%s", mount->place, source);
	}
	return 0;
}

/* Mount points may be missing in a root file system that was made anew. */
static int prepare_mounts(struct restoration *r, const struct image_options *image, struct err *err)
{
	const struct oci_config *config = r->container->config;
	struct image_mounts mounts = { 0 };
	_cleanup_fd_ int root = open(r->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int result;

	if (root < 0)
		return err_set(err, errno, "open the root file system %s", r->rootfs);
	result = image_mounts_read(r->container, image->fd, &mounts, err);
	if (result == 0)
		result = add_mounts(r, root, &mounts, err);
	image_mounts_free(&mounts);
	for (size_t i = 0; result == 0 && i < config->n_mounts; i++) {
		const struct oci_mount *mount = &config->mounts[i];

		if (mount->type && !str_eq(mount->type, "bind") && !str_eq(mount->type, "none") &&
		    !lies_on_mount(config, mount->destination))
			result = make_place(root, mount->destination, true, err);
	}
	return result;
}

static int add_descriptor(struct restoration *r, const char *key, int fd, struct err *err)
{
	if (fd >= 0 && image_add_fd(&r->request, key, fd))
		return 0;
	return err_set(err, fd < 0 ? errno : E2BIG, "pass %s to CRIU", key);
}

static int prepare_streams(struct restoration *r, const struct image_options *image,
			   struct err *err)
{
	char *streams[3] = { 0 };
	int result = image_streams_read(image->fd, streams, err);

	for (int i = 0; i < 3; i++) {
		if (result == 0 && streams[i] && streams[i][0] && streams[i][0] != '/')
			result = add_descriptor(r, streams[i], fcntl(i, F_DUPFD_CLOEXEC, FIRST_FD),
						err);
		free(streams[i]);
	}
	return result;
}

static void join(struct restoration *r, const char *kind, const char *path)
{
	size_t i = r->request.options.n_join_namespaces;

	if (i == ARRAY_LEN(r->request.joins))
		return;
	criu__join_namespace__init(&r->request.join_items[i]);
	r->request.join_items[i].kind = (char *)kind;
	r->request.join_items[i].path = (char *)path;
	r->request.joins[i] = &r->request.join_items[i];
	r->request.options.n_join_namespaces++;
}

static int prepare_namespaces(struct restoration *r, struct err *err)
{
	const struct oci_linux *linux_ = r->container->config->linux_;

	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++) {
		const struct oci_namespace *ns = &linux_->namespaces[i];
		bool net = str_eq(ns->type, "network");

		if (!ns->path || !*ns->path)
			continue;
		if (str_eq(ns->type, "ipc") || str_eq(ns->type, "uts") || str_eq(ns->type, "time"))
			join(r, ns->type, ns->path);
		else if ((net || str_eq(ns->type, "pid")) &&
			 add_descriptor(r, net ? IMAGE_NET_NAMESPACE : IMAGE_PID_NAMESPACE,
					open(ns->path, O_RDONLY | O_CLOEXEC), err) < 0)
			return err_wrap(err, "join the namespace %s", ns->path);
	}
	return 0;
}

static void fill_in(struct restoration *r, const struct image_options *image)
{
	Criu__Options *options = &r->request.options;

	r->request.request.type = CRIU__REQUEST_TYPE__RESTORE;
	options->log_file = (char *)"restore.log";
	options->root = r->rootfs;
	options->has_rst_sibling = options->rst_sibling = true;
	options->has_evasive_devices = options->evasive_devices = true;
	options->lsm_profile = (char *)image->lsm_profile;
	options->lsm_mount_context = (char *)image->lsm_mount_context;
	if (!r->container->cgroup_path || image->cgroups == IMAGE_CGROUPS_IGNORE)
		return;
	criu__cgroup_root__init(&r->request.cgroup_root);
	r->request.cgroup_root.path = (char *)r->container->cgroup_path;
	r->request.cgroup_roots[0] = &r->request.cgroup_root;
	options->n_cgroup_roots = 1;
	options->cgroup_roots = r->request.cgroup_roots;
}

/* CRIU mounts on directories below these, and may do so only where they are of its namespace. */
static int send_directories(const struct restoration *r, struct err *err)
{
	int fds[2] = { open(r->image->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		       open(r->image->work_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };

	if (fds[0] < 0 || fds[1] < 0 || fd_send(r->channel[1], "d", 1, fds, 2) < 0)
		return err_set(err, errno, "open the image's directories anew");
	return 0; /* closed when CRIU is executed */
}

/* CRIU's process: the root file system must be a mount, and is one here and nowhere else. */
static int prepare_process(void *context, struct err *err)
{
	const struct restoration *r = context;
	const char *cgroup = r->container->cgroup_path;

	if (cgroup && cgroup_enter(cgroup, 0, err) < 0)
		return -1;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return err_set(err, errno, "make a mount namespace for CRIU");
	/* Shared again, among themselves: what was a slave of the host's needs a master here. */
	if (mount(r->rootfs, r->rootfs, NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0)
		return err_set(err, errno, "mount the root file system %s", r->rootfs);
	for (size_t i = 0; i < r->request.options.n_inherit_fds; i++)
		if (fd_set_cloexec(r->request.inherit_fd_items[i].fd, false) < 0)
			return err_set(err, errno, "pass a descriptor to CRIU");
	return send_directories(r, err);
}

/* CRIU asks for descriptors of who calls it: these, then, by the numbers in the request. */
static int take_directories(void *context, pid_t pid, struct err *err)
{
	const struct restoration *r = context;
	int fds[2], result = 0;
	char byte;

	if (image_helper_record(r->container, pid, err) < 0)
		return -1;
	if (fd_receive(r->channel[0], &byte, 1, fds, 2) != 1 || fds[0] < 0 || fds[1] < 0)
		return err_set(err, 0, "open the image's directories: CRIU's process ended");
	if (dup3(fds[0], r->image->fd, O_CLOEXEC) < 0 ||
	    dup3(fds[1], r->image->work_fd, O_CLOEXEC) < 0)
		result = err_set(err, errno, "open the image's directories");
	close(fds[0]);
	close(fds[1]);
	return result;
}

static int run_hooks(const struct restoration *r, pid_t pid, struct err *err)
{
	const struct oci_hooks *hooks = r->container->config->hooks;
	_cleanup_free_ char *state = NULL;

	if (!hooks)
		return 0;
	state = plain_describe(r->container, pid, "creating");
	if (hooks_run(hooks->prestart, hooks->n_prestart, "prestart", state, err) < 0)
		return -1;
	return hooks_run(hooks->create_runtime, hooks->n_create_runtime, "createRuntime", state,
			 err);
}

static int stage(void *context, const char *name, pid_t pid, int fd, struct err *err)
{
	static const char terminal[] = "/dev/pts/ptmx";
	const struct restoration *r = context;
	_cleanup_fd_ int master = fd;

	if (str_eq(name, "setup-namespaces"))
		return run_hooks(r, pid, err);
	if (!str_eq(name, "orphan-pts-master"))
		return 0;
	if (master < 0)
		return err_set(err, 0, "take the terminal from CRIU: none came");
	if (r->options->console_socket < 0)
		return err_set(err, 0,
			       "the image has a terminal, which has to go somewhere: give "
			       "--console-socket");
	if (fd_send(r->options->console_socket, terminal, sizeof(terminal) - 1, &master, 1) < 0)
		return err_set(err, errno, "send the terminal to the console socket");
	return 0;
}

static int check_images(const struct image_options *image, struct err *err)
{
	if (faccessat(image->fd, "inventory.img", F_OK, 0) == 0)
		return 0;
	return err_set(err, 0,
		       "%s holds no checkpoint (there is no inventory.img): see --image-path",
		       image->path);
}

static void release(struct restoration *r)
{
	for (size_t i = 0; i < r->request.options.n_inherit_fds; i++)
		close(r->request.inherit_fd_items[i].fd);
	image_request_free(&r->request);
	free(r->rootfs);
	fd_replace(&r->channel[0], -1);
	fd_replace(&r->channel[1], -1);
}

int image_restore(struct container *container, const struct create_options *options,
		  const struct image_options *image, struct err *err)
{
	_cleanup_(release) struct restoration r = { .container = container,
						    .options = options,
						    .image = image,
						    .rootfs = image_rootfs(container),
						    .channel = { -1, -1 } };
	struct criu_call call = { .request = &r.request.request,
				  .work_path = image->work_path,
				  .context = &r,
				  .prepare = prepare_process,
				  .running = take_directories,
				  .stage = stage };
	pid_t pid = 0;

	image_request_init(&r.request, image);
	if (image_check(container, "restore", err) < 0 || check_images(image, err) < 0)
		return -1;
	fill_in(&r, image);
	if (fd_socketpair(SOCK_SEQPACKET, r.channel) < 0)
		return err_set(err, errno, "make a socket pair");
	if (prepare_mounts(&r, image, err) < 0 || prepare_streams(&r, image, err) < 0 ||
	    prepare_namespaces(&r, err) < 0 || criu_run(&call, &pid, err) < 0)
		return err_wrap(err, "restore container %s", container->id);
	if (pid <= 0)
		return err_set(err, 0, "restore container %s: CRIU told no process", container->id);
	container->pid = pid;
	image_helper_wait(container);
	if (image_network_restored(container, image, err) == 0)
		return 0;
	kill(pid, SIGKILL);
	proc_wait(pid);
	return err_wrap(err, "restore container %s", container->id);
}
