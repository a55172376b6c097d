/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine's disks, opened for diskd, which serves them: an image as the root file system
 * (vm.image), and block devices of the host (linux.devices).
 */
#pragma once

#include "vm/spawn.h"
#include "vmm/vmm.h"

#include <stdbool.h>

struct moat_settings;
struct oci_config;

struct disk_file {
	int fd;
	int direct_fd; /* the same for direct I/O, or -1 */
	bool read_only;
	uint64_t sectors;
	uint32_t block_size; /* bytes: of direct I/O, and of what the guest may ask for */
};

/* An entry of linux.devices that is a disk. */
struct disk_device {
	uint32_t device; /* index in linux.devices */
	uint32_t disk;	 /* the disk's number */
};

/* The root, where it is one, is number 0. */
struct disks {
	struct disk_file file[VMM_DISKS_MAX];
	unsigned int count;
	unsigned int queues; /* of each */
	struct disk_device *device;
	size_t device_count;
};

/*
 * disks_open() - vm.image, if the config has one and the operator allows it (bundleImage), and
 * block devices that are listed (blockDevices). A raw image only: what it holds is never looked at
 * on the host, as the guest could have written that. It is locked against another machine; two
 * readers may share it.
 *
 * Returns 0, or -1 with err set; release with disks_close() in both cases.
 */
int disks_open(struct disks *disks, const struct oci_config *config,
	       const struct moat_settings *settings, unsigned int vcpus, struct err *err);
void disks_close(struct disks *disks);
/* disks_close_files() - when diskd has them. */
void disks_close_files(struct disks *disks);

/* disks_list() - their descriptors, at most 2 * VMM_DISKS_MAX. Returns how many there are. */
size_t disks_list(const struct disks *disks, int *fds);

/* The sockets between vmm and diskd, one for each queue. */
#define DISK_ENDS_MAX (VMM_DISKS_MAX * VMM_DISK_QUEUES_MAX)
struct disk_ends {
	int vmm_fd[DISK_ENDS_MAX];
	int diskd_fd[DISK_ENDS_MAX];
	unsigned int count;
};

/* disks_pair() - make them. 0, or -1 with err set; disk_ends_close() in both cases. */
int disks_pair(const struct disks *disks, struct disk_ends *ends, struct err *err);
void disk_ends_close(struct disk_ends *ends);

/*
 * disks_start() - fork diskd for the disks into that jail; nothing where there is no disk.
 * Returns 0, or -1 with err set.
 */
int disks_start(const struct disks *disks, struct child *diskd, const struct jail *jail,
		int memory_fd, uint64_t memory_size, const struct disk_ends *ends, struct err *err);

/* disks_describe() - tell the vmm of them. */
void disks_describe(const struct disks *disks, const struct disk_ends *ends,
		    struct vmm_config *config);

/*
 * block_devices_open() - the part of disks_open() that is about block devices (block_devices.c).
 */
int block_devices_open(struct disks *disks, const struct oci_config *config,
		       const struct moat_settings *settings, struct err *err);
