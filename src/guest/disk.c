/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Disks. In which order the kernel finds them is its own affair: each is known by its name, which
 * the host gives it. The root is tried with each file system for disks that the kernel has; where
 * the disk or the file system cannot be written, what is written stays in memory.
 */
#include "guest/disk.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "disk/diskd.h"
#include "oci/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LINE_MAX_SIZE 64
#define DISK_COVER    "/run/moat/cover"

/* A line of a disk's description. Returns it without its end, or NULL. */
static char *read_line(const char *blocks, const char *name, const char *file)
{
	_cleanup_free_ char *path = xasprintf("%s/%s/%s", blocks, name, file);
	char *text = file_read(AT_FDCWD, path, LINE_MAX_SIZE, NULL, NULL);

	if (text)
		text[strcspn(text, "\n")] = '\0';
	return text;
}

static bool is_disk(const char *blocks, const char *name, unsigned int number)
{
	_cleanup_free_ char *serial = NULL;
	char wanted[LINE_MAX_SIZE];

	if (strncmp(name, "vd", 2) != 0 || strlen(name) >= DISK_NAME_MAX)
		return false;
	serial = read_line(blocks, name, "serial");
	snprintf(wanted, sizeof(wanted), DISK_NAME, number);
	return serial && str_eq(serial, wanted);
}

int disk_find(const char *blocks, unsigned int number, char name[DISK_NAME_MAX], dev_t *device,
	      struct err *err)
{
	DIR *directory = opendir(blocks);
	_cleanup_free_ char *numbers = NULL;
	const struct dirent *entry;
	unsigned int major_, minor_;

	name[0] = '\0';
	while (directory && !name[0] && (entry = readdir(directory)))
		if (is_disk(blocks, entry->d_name, number))
			snprintf(name, DISK_NAME_MAX, "%.*s", DISK_NAME_MAX - 1, entry->d_name);
	if (directory)
		closedir(directory);
	numbers = name[0] ? read_line(blocks, name, "dev") : NULL;
	if (!numbers || sscanf(numbers, "%u:%u", &major_, &minor_) != 2)
		return err_set(err, ENODEV, "find disk %u of the machine", number);
	*device = makedev(major_, minor_);
	return 0;
}

/* Mounts the disk with the file system that it holds. Returns its type, or NULL with err set. */
static const char *mount_disk(const char *device, const char *target, bool read_only,
			      struct err *err)
{
	static const char *const types[] = { "ext4", "erofs" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (mount(device, target, types[i], read_only ? MS_RDONLY : 0, NULL) == 0)
			return types[i];
		/* EINVAL: it is not one of these; ENODEV: the kernel does not know them. */
		if (errno != EINVAL && errno != ENODEV) {
			err_set(err, errno, "vm.image: mount it as %s", types[i]);
			return NULL;
		}
	}
	err_set(err, 0,
		"vm.image: it holds no file system that the guest's kernel has (ext4, EROFS)");
	return NULL;
}

/* Puts a file system in the guest's memory over what cannot be written, for what is. */
static int cover(struct err *err)
{
	static const char *const directories[] = { DISK_COVER, DISK_COVER "/upper",
						   DISK_COVER "/work" };

	for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
		if (mkdir(directories[i], 0755) < 0)
			return err_set(err, errno, "vm.image: make %s in the guest",
				       directories[i]);
		if (i == 0 && mount("cover", DISK_COVER, "tmpfs", MS_NODEV, "mode=0700") < 0)
			return err_set(err, errno, "vm.image: mount a tmpfs");
	}
	if (mount("root", DISK_ROOT, "overlay", 0,
		  "lowerdir=" DISK_ROOT ",upperdir=" DISK_COVER "/upper,workdir=" DISK_COVER
		  "/work") < 0)
		return err_set(err, errno, "vm.image: mount an overlay for what is written");
	return 0;
}

int disk_mount_root(bool read_only, struct err *err)
{
	_cleanup_free_ char *locked = NULL;
	char name[DISK_NAME_MAX], path[DISK_NAME_MAX + 8];
	const char *type;
	bool is_locked;
	dev_t device;

	if (disk_find(DISK_BLOCKS, 0, name, &device, err) < 0)
		return err_wrap(err, "vm.image");
	locked = read_line(DISK_BLOCKS, name, "ro");
	is_locked = locked && str_eq(locked, "1");
	snprintf(path, sizeof(path), "/dev/%s", name);
	type = mount_disk(path, DISK_ROOT, read_only || is_locked, err);
	if (!type)
		return -1;
	return !read_only && (is_locked || str_eq(type, "erofs")) ? cover(err) : 0;
}

void disk_unmount_root(void)
{
	if (umount2(DISK_ROOT, MNT_DETACH) == 0)
		umount2(DISK_ROOT, MNT_DETACH); /* what the overlay was over */
}

/* What an id of the container is outside of its user namespace; nobody's, if it has none there. */
static uint32_t map_id(const struct oci_id_mapping *maps, size_t count, uint32_t id)
{
	for (size_t i = 0; i < count; i++)
		if (id >= maps[i].container_id && id - maps[i].container_id < maps[i].size)
			return maps[i].host_id + (id - maps[i].container_id);
	return 65534;
}

int disk_make_node(const struct oci_device *device, const struct oci_linux *config, struct err *err)
{
	mode_t mode = device->has_file_mode ? device->file_mode & 07777 : 0666;
	uid_t uid = map_id(config->uid_mappings, config->n_uid_mappings, device->uid);
	gid_t gid = map_id(config->gid_mappings, config->n_gid_mappings, device->gid);
	dev_t number = makedev((unsigned int)device->major, (unsigned int)device->minor);

	if (!str_starts_with(device->path, "/dev/"))
		return err_set(err, 0,
			       "device %s: in a container with a user namespace it has to be in "
			       "/dev",
			       device->path);
	if (mknod(device->path, S_IFBLK | mode, number) < 0 || chmod(device->path, mode) < 0 ||
	    chown(device->path, uid, gid) < 0)
		return err_set(err, errno, "make the device %s in the guest", device->path);
	return 0;
}
