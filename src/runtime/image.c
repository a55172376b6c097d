/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints: the directories of an image, and what a container is after its processes were saved.
 */
#include "runtime/private.h"

#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

static int open_directory(const char *path, bool make, const char *what, struct err *err)
{
	int fd;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "make the directory %s for %s", path, what);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open the directory %s of %s", path, what) : fd;
}

int image_open(struct image_options *image, bool make, struct err *err)
{
	image->work_fd = -1;
	image->fd = open_directory(image->path, make, "the checkpoint", err);
	if (image->fd < 0)
		return err_hint(err, "--image-path names it");
	if (!image->work_path)
		image->work_path = image->path;
	image->work_fd = open_directory(image->work_path, true, "CRIU's log", err);
	return image->work_fd < 0 ? -1 : 0;
}

void image_close(struct image_options *image)
{
	fd_replace(&image->fd, -1);
	fd_replace(&image->work_fd, -1);
}

int image_offered(const struct instance *instance, const char *action, struct err *err)
{
	if (instance->engine->checkpoint && instance->engine->restore)
		return 0;
	return err_set(
		err, 0,
		"cannot %s container %s: level %s does not offer that, as CRIU saves processes "
		"of the host's kernel and these have a kernel of their own",
		action, instance->container.id, instance->engine->name);
}

/* CRIU looks for the parent from the images' directory on, and takes a missing one for none. */
static int check_parent(const struct image_options *image, struct err *err)
{
	struct stat st;

	if (!image->parent_path)
		return 0;
	if (image->parent_path[0] == '/')
		return err_set(err, 0,
			       "--parent-path %s: it has to start from the images' directory, as "
			       "in ../before",
			       image->parent_path);
	if (fstatat(image->fd, image->parent_path, &st, 0) < 0)
		return err_set(err, errno, "find the earlier checkpoint %s, from %s on",
			       image->parent_path, image->path);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "use the earlier checkpoint %s", image->parent_path);
	return 0;
}

int instance_checkpoint(struct instance *instance, struct image_options *image, struct err *err)
{
	enum status status = instance_status(instance);
	int r;

	if (image_offered(instance, "checkpoint", err) < 0)
		return -1;
	if (status != STATUS_RUNNING && status != STATUS_PAUSED) /* containerd pauses it first */
		return instance_wrong_state(instance, "checkpoint", "", err);
	if (instance_config(instance, err) < 0)
		return -1;
	r = image_open(image, true, err);
	if (r == 0)
		r = check_parent(image, err);
	if (r == 0)
		r = instance->engine->checkpoint(&instance->container, image, err);
	image_close(image);
	if (r < 0 || image->leave_running || image->pre_dump)
		return r;
	return instance_delete(instance, true, err);
}
