/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state directory ROOT/ID: state.json (replaced atomically), config.json as it was at create,
 * a lock. Whoever made the directory owns the id; whatever a killed command left in it can be read
 * or removed by the next one.
 */
#include "runtime/private.h"

#include "base/file.h"
#include "base/path.h"
#include "cgroup/owned.h"
#include "oci/record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define STATE_MAX	 (1u << 20)
#define REMOVE_TRIES	 50
#define LOCK_WAIT_MS	 10000
#define LOCK_INTERVAL_MS 20
#define SETTLE_MS	 1000

static int make_root(const char *root, struct err *err)
{
	_cleanup_free_ char *path = xstrdup(root);

	for (char *slash = path + 1; *slash; slash++) {
		if (*slash != '/')
			continue;
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "make directory %s", path);
		*slash = '/';
	}
	if (mkdir(root, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "make directory %s for the containers' state", root);
	return 0;
}

static int open_lock(const struct instance *instance)
{
	return openat(instance->state_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/*
 * A record lock belongs to this process alone: children that inherit the descriptor hold nothing.
 */
static int lock_take(struct instance *instance, struct err *err)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const struct timespec interval = { .tv_nsec = LOCK_INTERVAL_MS * 1000000 };

	instance->lock_fd = open_lock(instance);
	if (instance->lock_fd < 0 && errno == EISDIR &&
	    unlinkat(instance->state_fd, "lock", AT_REMOVEDIR) == 0)
		instance->lock_fd = open_lock(instance);
	if (instance->lock_fd < 0)
		return err_set(err, errno, "open the lock of container %s, %s/lock",
			       instance->container.id, instance->state_path);
	for (int waited = 0; fcntl(instance->lock_fd, F_SETLK, &whole) < 0;) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return err_set(err, errno, "lock container %s", instance->container.id);
		if (waited >= LOCK_WAIT_MS)
			return err_set(err, 0,
				       "container %s is being changed by another command (waited "
				       "%d s): try again when it is done",
				       instance->container.id, LOCK_WAIT_MS / 1000);
		nanosleep(&interval, NULL);
		waited += LOCK_INTERVAL_MS;
	}
	return 0;
}

bool state_is_current(const struct instance *instance)
{
	struct stat ours, named;

	return fstat(instance->state_fd, &ours) == 0 && stat(instance->state_path, &named) == 0 &&
	       ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

int state_create(const struct runtime *runtime, struct instance *instance, const char *id,
		 struct err *err)
{
	int r;

	instance->state_path = xasprintf("%s/%s", runtime->root, id);
	r = mkdir(instance->state_path, 0700);
	if (r < 0 && errno == ENOENT) {
		if (make_root(runtime->root, err) < 0)
			return runtime_root_failed(runtime, err);
		r = mkdir(instance->state_path, 0700);
	}
	if (r < 0 && errno == EEXIST) {
		err_set(err, 0,
			"container id %s is in use: delete that container, or take another id", id);
		err->code = EEXIST;
		return -1;
	}
	if (r < 0) {
		err_set(err, errno, "make directory %s for the container's state",
			instance->state_path);
		return runtime_root_failed(runtime, err);
	}
	instance->state_made = true;
	instance->state_fd = open(instance->state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (instance->state_fd < 0)
		return err_set(err, errno, "open %s", instance->state_path);
	return lock_take(instance, err);
}

int state_none(const char *id, struct err *err)
{
	err_set(err, 0, "container %s does not exist: moat list shows those that do", id);
	err->code = ERR_NO_CONTAINER;
	return -1;
}

int state_open(const struct runtime *runtime, struct instance *instance, const char *id, bool lock,
	       struct err *err)
{
	instance->state_path = xasprintf("%s/%s", runtime->root, id);
	instance->state_fd =
		open(instance->state_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (instance->state_fd < 0 && errno == ENOENT)
		return state_none(id, err);
	if (instance->state_fd < 0) {
		err_set(err, errno, "open %s", instance->state_path);
		return runtime_root_failed(runtime, err);
	}
	if (!lock)
		return 0;
	if (lock_take(instance, err) < 0)
		return state_is_current(instance) ? -1 : state_none(id, err);
	if (!state_is_current(instance)) /* deleted, or deleted and made anew, while we waited */
		return state_none(id, err);
	return 0;
}

/* Its lock is removed with the rest, but until then is made by whoever changes it. */
static bool is_busy(const struct instance *instance)
{
	_cleanup_fd_ int fd =
		openat(instance->state_fd, "lock", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fd < 0)
		return errno == ENOENT;
	return fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

int state_settle(const struct instance *instance, struct err *err)
{
	const struct timespec interval = { .tv_nsec = LOCK_INTERVAL_MS * 1000000 };

	for (int waited = 0;
	     faccessat(instance->state_fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	     errno == ENOENT;
	     waited += LOCK_INTERVAL_MS) {
		if (!state_is_current(instance))
			return state_none(instance->container.id, err);
		if (waited >= SETTLE_MS || !is_busy(instance))
			return 0;
		nanosleep(&interval, NULL);
	}
	return 0;
}

int state_write(const struct instance *instance, struct err *err)
{
	size_t size;
	_cleanup_free_ char *text = moat_record_write(instance->record, &size);

	if (file_replace(instance->state_fd, "state.json", text, size, 0600, err) < 0)
		return err_wrap(err, "keep the state of container %s", instance->container.id);
	return 0;
}

/* A file that is gone or none, and not only one that cannot be read now. */
static bool is_damage(int code)
{
	return code == 0 || code == ENOENT || code == ENXIO || code == ELOOP || code == EFBIG;
}

int state_read(struct instance *instance, struct err *err)
{
	size_t size;
	_cleanup_free_ char *text =
		file_read_regular(instance->state_fd, "state.json", STATE_MAX, &size, err);

	if (!text && !is_damage(err->code))
		return -1;
	if (text)
		instance->record = moat_record_parse(text, size, "state.json", err);
	if (!instance->record) {
		instance->record = xcalloc(1, sizeof(*instance->record));
		instance->record->id = xstrdup(instance->container.id);
		instance->record->isolation = xstrdup("plain");
		instance->record->bundle = xstrdup("");
		/* Whoever deletes it still has to find what it left running. */
		instance->record->cgroup_path = cgroup_marked(instance->state_fd);
		instance->damaged = true;
	}
	return 0;
}

int state_remove(const struct runtime *runtime, struct instance *instance, struct err *err)
{
	_cleanup_fd_ int root = open(runtime->root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_set(err, errno, "open %s", runtime->root);
	/* A command that opened the directory before may still make a lock in it. */
	for (int tries = 0; path_remove_tree(root, instance->container.id, err) < 0; tries++)
		if (!err || err->code != ENOTEMPTY || tries == REMOVE_TRIES)
			return err_wrap(err, "remove the state of container %s",
					instance->container.id);
	return 0;
}
