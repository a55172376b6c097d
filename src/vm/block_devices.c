/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Block devices of the host. A bundle names them by their numbers and by the path that they are to
 * have in the container; which of the host's they may be is the operator's list of paths. The one
 * of these that has the numbers is opened: looked at through a descriptor that can do nothing else,
 * and then opened by that, so that what was looked at is what is used.
 *
 * A device that is written belongs to one machine alone, and is not mounted on the host meanwhile:
 * a kernel that finds its file system changed by another does not survive it.
 */
#include "vm/disks.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "disk/diskd.h"
#include "oci/config.h"
#include "oci/settings.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define WHERE "linux.devices[%zu]: "

/* Numbers that a device can have, as dev_t; 0: it has none. */
static dev_t number_of(const struct oci_device *device)
{
	if (!device->has_major || !device->has_minor || device->major < 0 || device->minor < 0 ||
	    device->major > UINT32_MAX || device->minor > UINT32_MAX)
		return 0;
	return makedev((unsigned int)device->major, (unsigned int)device->minor);
}

static bool is_block(const struct oci_device *device)
{
	return str_eq(device->type, "b");
}

/* Returns an O_PATH descriptor where that path is the device, else -1. */
static int open_if(const char *path, dev_t number)
{
	_cleanup_free_ char *real = realpath(path, NULL); /* udev's names are links */
	_cleanup_fd_ int fd = real ? open(real, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode) || st.st_rdev != number)
		return -1;
	return fd_steal(&fd);
}

/* The one of the operator's list that has the numbers. Returns -1 where there is none. */
static int find(const struct moat_settings *settings, dev_t number)
{
	int fd = -1;

	for (size_t i = 0; number && i < settings->n_block_devices && fd < 0; i++) {
		glob_t paths;

		if (glob(settings->block_devices[i], GLOB_NOSORT, NULL, &paths) != 0)
			continue;
		for (size_t j = 0; j < paths.gl_pathc && fd < 0; j++)
			fd = open_if(paths.gl_pathv[j], number);
		globfree(&paths);
	}
	return fd;
}

static int refuse(const struct moat_settings *settings, const struct oci_device *device,
		  size_t index, struct err *err)
{
	err_set(err, 0,
		WHERE "%s (b %lld:%lld) is a block device of the host, and none of those that a "
		      "microVM may have",
		index, device->path, (long long)device->major, (long long)device->minor);
	if (settings->n_block_devices)
		return err_hint(err, "nothing that \"blockDevices\" of the operator's file lists "
				     "has these numbers (ls -lL shows them): list its path on the "
				     "host there, leave it out, or use --isolation=sandbox");
	return err_hint(err, "leave it out, list its path on the host in \"blockDevices\" in "
			     "/etc/moat/moat.json, or use --isolation=sandbox");
}

/* By the rules of its cgroup and the modes of its files. */
static int may_write(const struct oci_linux *linux_, dev_t number, bool *may, struct err *err)
{
	bool read, write;

	*may = false;
	for (size_t i = 0; i < linux_->n_devices; i++) {
		const struct oci_device *device = &linux_->devices[i];

		if (!is_block(device) || number_of(device) != number)
			continue;
		if (cgroup_device_access(linux_->resources, device, &read, &write, err) < 0)
			return -1;
		if (write && (!device->has_file_mode || (device->file_mode & 0222)))
			*may = true;
	}
	return 0;
}

static int open_found(int found, bool read_only, const char *path, size_t index, struct err *err)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
	fd = open(name, O_DIRECT | O_CLOEXEC | (read_only ? O_RDONLY : O_RDWR | O_EXCL));
	if (fd >= 0)
		return fd;
	err_set(err, errno, WHERE "open %s%s", index, path, read_only ? "" : " to write");
	if (err->code == EBUSY)
		return err_hint(err, "it is mounted or in use on the host, or another microVM's: "
				     "end that, or let the container only read it");
	return -1;
}

/* Some kernels let a device be opened that cannot be written, and fail each write. */
static int check_writable(const struct disk_file *file, const char *path, size_t index,
			  struct err *err)
{
	int locked = 0;

	if (file->read_only || ioctl(file->fd, BLKROGET, &locked) < 0 || !locked)
		return 0;
	err_set(err, EROFS, WHERE "open %s to write", index, path);
	return err_hint(err, "let the container only read it: --device PATH:PATH:r");
}

static int measure(struct disk_file *file, const char *path, size_t index, struct err *err)
{
	uint64_t bytes;
	int block;

	if (ioctl(file->fd, BLKGETSIZE64, &bytes) < 0 || ioctl(file->fd, BLKSSZGET, &block) < 0)
		return err_set(err, errno, WHERE "ask for the size of %s", index, path);
	if (bytes < DISK_SECTOR)
		return err_set(err, 0, WHERE "%s is empty: it has no medium, or no image", index,
			       path);
	file->sectors = bytes / DISK_SECTOR;
	file->block_size = (uint32_t)block;
	return check_writable(file, path, index, err);
}

static int open_one(struct disks *disks, const struct oci_linux *linux_,
		    const struct moat_settings *settings, size_t index, struct err *err)
{
	const struct oci_device *device = &linux_->devices[index];
	_cleanup_fd_ int found = find(settings, number_of(device));
	struct disk_file *file = &disks->file[disks->count];
	bool may;

	if (found < 0)
		return refuse(settings, device, index, err);
	if (disks->count == VMM_DISKS_MAX)
		return err_set(err, 0, WHERE "%s is one disk too many: a microVM has room for %u",
			       index, device->path, VMM_DISKS_MAX);
	if (may_write(linux_, number_of(device), &may, err) < 0)
		return -1;
	*file = (struct disk_file){ .fd = -1, .direct_fd = -1, .read_only = !may };
	file->fd = file->direct_fd = open_found(found, file->read_only, device->path, index, err);
	disks->count++;
	return file->fd < 0 ? -1 : measure(file, device->path, index, err);
}

/* The disk of an entry before this one with the same numbers. Returns whether there is one. */
static bool find_earlier(const struct disks *disks, const struct oci_linux *linux_, size_t index,
			 uint32_t *disk)
{
	for (size_t i = 0; i < disks->device_count; i++) {
		const struct disk_device *earlier = &disks->device[i];

		if (number_of(&linux_->devices[earlier->device]) !=
		    number_of(&linux_->devices[index]))
			continue;
		*disk = earlier->disk;
		return true;
	}
	return false;
}

int block_devices_open(struct disks *disks, const struct oci_config *config,
		       const struct moat_settings *settings, struct err *err)
{
	const struct oci_linux *linux_ = config->linux_;

	/* Of --privileged, which lists all that the host has: it gets none. */
	if (!linux_ || cgroup_allows_every_device(linux_->resources))
		return 0;
	disks->device = xcalloc(linux_->n_devices, sizeof(*disks->device));
	for (size_t i = 0; i < linux_->n_devices; i++) {
		uint32_t disk = disks->count;

		if (!is_block(&linux_->devices[i]))
			continue;
		if (!find_earlier(disks, linux_, i, &disk) &&
		    open_one(disks, linux_, settings, i, err) < 0)
			return -1;
		disks->device[disks->device_count++] =
			(struct disk_device){ .device = (uint32_t)i, .disk = disk };
	}
	return 0;
}
