/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tries each file system for disks that the guest's kernel has. */
#include "guest/disk.h"

#include "base/mem.h"

#include <errno.h>
#include <sys/mount.h>

#define DISK_DEVICE "/dev/vda"

int disk_mount_root(bool read_only, struct err *err)
{
	static const char *const types[] = { "ext4", "erofs" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (mount(DISK_DEVICE, DISK_ROOT, types[i], read_only ? MS_RDONLY : 0, NULL) == 0)
			return 0;
		/* EINVAL: it is not one of these; ENODEV: the kernel does not know them. */
		if (errno != EINVAL && errno != ENODEV)
			return err_set(err, errno, "vm.image: mount it as %s", types[i]);
	}
	return err_set(err, 0,
		       "vm.image: it holds no file system that the guest's kernel has "
		       "(ext4, EROFS)");
}

void disk_unmount_root(void)
{
	umount2(DISK_ROOT, MNT_DETACH);
}
