/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lock is flock(2)'s: it belongs to the open file, which the monitor hands on, and so lasts as
 * long as a process of the machine has it.
 */
#include "vm/disks.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "disk/diskd.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "vm/sizing.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define BLOCK_DEFAULT 4096u /* where the kernel does not say what direct I/O wants */

_Static_assert(DISK_ENDS_MAX <= DISKD_QUEUES_MAX && VMM_DISK_QUEUES_MAX <= DISK_QUEUES_MAX,
	       "diskd has room for every queue");

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

/* What direct I/O with a file has to be made of; 0: it cannot be. */
static uint32_t direct_block(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN))
		return stx.stx_dio_offset_align > stx.stx_dio_mem_align ? stx.stx_dio_offset_align
									: stx.stx_dio_mem_align;
#endif
	return BLOCK_DEFAULT;
}

/* The same file once more, by its descriptor: whatever has its name now. */
static int open_direct(struct disk_file *file, const char *name, struct err *err)
{
	uint32_t block = direct_block(file->fd);
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	if (block)
		file->direct_fd =
			open(path, (file->read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC);
	if (file->direct_fd < 0) {
		err_set(err, block ? errno : 0,
			"vm.image: the file system of %s cannot do direct I/O", name);
		return err_hint(err, "set \"directIO\" to false in /etc/moat/moat.json");
	}
	file->block_size = block < DISK_SECTOR ? DISK_SECTOR : block;
	return 0;
}

static int open_image(struct disks *disks, const struct oci_config *config,
		      const struct oci_vm_image *image, bool direct, struct err *err)
{
	struct disk_file *file = &disks->file[disks->count];
	struct stat st;

	*file = (struct disk_file){ .fd = -1, .direct_fd = -1, .block_size = DISK_SECTOR };
	disks->count++;
	if (stat(image->path, &st) < 0)
		return err_set(err, errno, "vm.image: open %s", image->path);
	/* By its mode, which does not bind root: many machines can use what nobody writes. */
	file->read_only = config->root->readonly || !(st.st_mode & 0222);
	/* O_NONBLOCK: a FIFO there shall be an error, and not wait for a writer. */
	file->fd = open(image->path,
			(file->read_only ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (file->fd < 0)
		return err_set(err, errno, "vm.image: open %s", image->path);
	if (fstat(file->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, 0, "vm.image: %s is not a regular file", image->path);
	if (st.st_size < DISK_SECTOR || st.st_size % DISK_SECTOR)
		return err_set(err, 0, "vm.image: %s has %lld bytes, not whole sectors of %u",
			       image->path, (long long)st.st_size, DISK_SECTOR);
	if (flock(file->fd, (file->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
		return err_set(err, errno, "vm.image: %s is in use by another machine",
			       image->path);
	file->sectors = (uint64_t)st.st_size / DISK_SECTOR;
	return direct ? open_direct(file, image->path, err) : 0;
}

int disks_open(struct disks *disks, const struct oci_config *config,
	       const struct moat_settings *settings, unsigned int vcpus, struct err *err)
{
	const struct oci_vm_image *image = config->vm ? config->vm->image : NULL;

	*disks = (struct disks){ .queues = sizing_queues(vcpus) };
	if (image && (check(image, settings->bundle_image, err) < 0 ||
		      open_image(disks, config, image, settings->direct_io, err) < 0))
		return -1;
	return block_devices_open(disks, config, settings, err);
}

void disks_close_files(struct disks *disks)
{
	for (unsigned int i = 0; i < disks->count; i++) {
		struct disk_file *file = &disks->file[i];

		if (file->direct_fd != file->fd)
			fd_replace(&file->direct_fd, -1);
		fd_replace(&file->fd, -1);
		file->direct_fd = -1;
	}
}

void disks_close(struct disks *disks)
{
	disks_close_files(disks);
	free(steal(disks->device));
	disks->device_count = 0;
}

size_t disks_list(const struct disks *disks, int *fds)
{
	size_t count = 0;

	for (unsigned int i = 0; i < disks->count; i++) {
		fds[count++] = disks->file[i].fd;
		fds[count++] = disks->file[i].direct_fd;
	}
	return count;
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
	if (!diskd || jail_enter(&launch->jail, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	close(launch->jail.namespaces_of);
	if (diskd_start(diskd, &err) < 0 || filter_load(ROLE_DISKD, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	if (diskd_run(diskd, &err) == 0)
		return 0;
	log_error("the disk's server ended: %s", err.text);
	return 1;
}

int disks_pair(const struct disks *disks, struct disk_ends *ends, struct err *err)
{
	for (ends->count = 0; ends->count < disks->count * disks->queues; ends->count++)
		if (spawn_pair(&ends->vmm_fd[ends->count], &ends->diskd_fd[ends->count], err) < 0)
			return -1;
	return 0;
}

void disk_ends_close(struct disk_ends *ends)
{
	for (unsigned int i = 0; i < ends->count; i++) {
		fd_replace(&ends->vmm_fd[i], -1);
		fd_replace(&ends->diskd_fd[i], -1);
	}
	ends->count = 0;
}

static void describe_queue(const struct disks *disks, unsigned int index, int vmm_fd,
			   struct diskd_queue *queue)
{
	unsigned int number = index / disks->queues;
	const struct disk_file *file = &disks->file[number];

	*queue = (struct diskd_queue){ .vmm_fd = vmm_fd,
				       .disk = number,
				       .image_fd = file->fd,
				       .direct_fd = file->direct_fd,
				       .read_only = file->read_only,
				       .block_size = file->block_size,
				       .sectors = file->sectors };
}

int disks_start(const struct disks *disks, struct child *diskd, const struct jail *jail,
		int memory_fd, uint64_t memory_size, const struct disk_ends *ends, struct err *err)
{
	struct launch launch = { .config = { .memory_fd = memory_fd,
					     .memory_size = memory_size,
					     .queues = ends->count },
				 .jail = *jail };
	int keep[DISK_ENDS_MAX + 2 * VMM_DISKS_MAX + 2];
	size_t count = disks_list(disks, keep);

	if (!disks->count)
		return 0;
	keep[count++] = memory_fd;
	keep[count++] = jail->namespaces_of;
	for (unsigned int i = 0; i < ends->count; i++) {
		describe_queue(disks, i, ends->diskd_fd[i], &launch.config.queue[i]);
		keep[count++] = ends->diskd_fd[i];
	}
	return spawn(diskd, ROLE_DISKD, 0, keep, count, body, &launch, err);
}

void disks_describe(const struct disks *disks, const struct disk_ends *ends,
		    struct vmm_config *config)
{
	config->disks = disks->count;
	for (unsigned int i = 0; i < disks->count; i++) {
		const struct disk_file *file = &disks->file[i];

		config->disk[i] = (struct vmm_disk){ .queues = disks->queues,
						     .read_only = file->read_only,
						     .sectors = file->sectors };
		/* A file has no blocks that it would not read or write a part of. */
		config->disk[i].block_size =
			file->fd == file->direct_fd ? file->block_size : DISK_SECTOR;
		for (unsigned int j = 0; j < disks->queues; j++)
			config->disk[i].fd[j] = ends->vmm_fd[i * disks->queues + j];
	}
}
