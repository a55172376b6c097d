/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lock is flock(2)'s: it belongs to the open file, which the monitor hands on, and so lasts as
 * long as a process of the machine has it.
 */
#include "vm/disks.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "disk/diskd.h"
#include "oci/config.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

static int check(const struct oci_vm_image *image, bool allowed, struct err *err)
{
	if (!allowed) {
		err_set(err, 0, "vm.image: a bundle may not choose a disk image of the host");
		return err_hint(err, "remove it, or set \"bundleImage\" in /etc/moat/moat.json");
	}
	if (!str_eq(image->format, "raw")) {
		err_set(err, 0, "vm.image.format: only raw images can be used");
		return err_hint(err, "convert it: qemu-img convert -O raw OLD NEW");
	}
	return 0;
}

int disk_open(struct disk_image *disk, const struct oci_config *config, bool allowed,
	      struct err *err)
{
	const struct oci_vm_image *image = config->vm ? config->vm->image : NULL;
	_cleanup_fd_ int fd = -1;
	struct stat st;

	disk->fd = -1;
	if (!image)
		return 0;
	if (check(image, allowed, err) < 0)
		return -1;
	disk->read_only = config->root->readonly;
	/* O_NONBLOCK: a FIFO there shall be an error, and not wait for a writer. */
	fd = open(image->path,
		  (disk->read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "vm.image: open %s", image->path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, 0, "vm.image: %s is not a regular file", image->path);
	if (st.st_size < DISK_SECTOR || st.st_size % DISK_SECTOR)
		return err_set(err, 0, "vm.image: %s has %lld bytes, not whole sectors of %u",
			       image->path, (long long)st.st_size, DISK_SECTOR);
	if (flock(fd, (disk->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
		return err_set(err, errno, "vm.image: %s is in use by another machine",
			       image->path);
	disk->sectors = (uint64_t)st.st_size / DISK_SECTOR;
	disk->fd = fd_steal(&fd);
	return 0;
}

struct launch {
	struct diskd_config config;
	struct jail jail;
};

static int body(void *data, int ready_fd)
{
	struct launch *launch = data;
	struct diskd *diskd;
	struct err err;

	diskd = diskd_setup(&launch->config, &err);
	close(launch->config.memory_fd);
	if (!diskd || jail_enter(&launch->jail, &err) < 0 || filter_load(ROLE_DISKD, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	if (diskd_run(diskd, &err) == 0)
		return 0;
	log_error("the disk's server ended: %s", err.text);
	return 1;
}

int disk_start(const struct disk_image *disk, struct child *diskd, uid_t uid, int memory_fd,
	       uint64_t memory_size, int *vmm_end, struct err *err)
{
	_cleanup_fd_ int server_end = -1;
	struct launch launch = { .config = { .image_fd = disk->fd,
					     .read_only = disk->read_only,
					     .sectors = disk->sectors,
					     .memory_fd = memory_fd,
					     .memory_size = memory_size },
				 .jail = { .role = ROLE_DISKD, .uid = uid } };

	*vmm_end = -1;
	if (disk->fd < 0)
		return 0;
	if (spawn_pair(vmm_end, &server_end, err) < 0)
		return -1;
	launch.config.vmm_fd = server_end;
	return spawn(diskd, ROLE_DISKD, (int[]){ server_end, disk->fd, memory_fd }, 3, body,
		     &launch, err);
}

void disk_describe(const struct disk_image *disk, int vmm_end, struct vmm_config *config)
{
	config->disks = disk->fd >= 0;
	config->disk[0] = (struct vmm_disk){ .fd = vmm_end,
					     .read_only = disk->read_only,
					     .sectors = disk->sectors };
}
