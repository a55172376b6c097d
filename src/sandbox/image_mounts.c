/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mounts of a container that came from outside: bind mounts of config.json, and the devices of
 * the host that mask files or stand for devices. CRIU does not save what is in them; where they are
 * inside is kept with the image, and what they are is said by the config.json of who restores it.
 */
#include "sandbox/image.h"
#include "sandbox/mount_options.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MOUNTS_FILE   "mounts.json"
#define MOUNTINFO_MAX (16u << 20)
#define CGROUP_MOUNT  "/sys/fs/cgroup"
#define CGROUP_ORIGIN "cgroup:"

struct mountinfo {
	uint64_t id;
	dev_t device;
	char *root, *place;
	const char *type;
};

static void add(struct image_mounts *mounts, const char *place, const char *origin)
{
	mounts->items = xrealloc(mounts->items, mounts->count + 1, sizeof(*mounts->items));
	mounts->items[mounts->count++] = (struct image_mount){ xstrdup(place), xstrdup(origin) };
}

void image_mounts_free(struct image_mounts *mounts)
{
	for (size_t i = 0; i < mounts->count; i++) {
		free(mounts->items[i].place);
		free(mounts->items[i].origin);
	}
	free(mounts->items);
	*mounts = (struct image_mounts){ 0 };
}

/* The kernel writes blanks and backslashes as \ooo. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (in[0] == '\\' && in[1] && in[2] && in[3]) {
			*out++ = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 3;
		} else {
			*out++ = *in;
		}
	}
	*out = '\0';
}

/* "36 35 98:0 /root /place options … - type …", taken apart in place. */
static bool parse_line(char *line, struct mountinfo *mount)
{
	char *fields[5], *device;
	uint64_t major_number, minor_number;

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		fields[i] = strsep(&line, " ");
		if (!line)
			return false;
	}
	device = strchr(fields[2], ':');
	if (!device)
		return false;
	*device++ = '\0';
	if (str_to_u64(fields[0], UINT64_MAX, &mount->id) < 0 ||
	    str_to_u64(fields[2], UINT32_MAX, &major_number) < 0 ||
	    str_to_u64(device, UINT32_MAX, &minor_number) < 0)
		return false;
	mount->device = makedev((unsigned int)major_number, (unsigned int)minor_number);
	mount->root = fields[3];
	mount->place = fields[4];
	line = strstr(line, " - ");
	if (!line)
		return false;
	mount->type = line + strlen(" - ");
	line += strlen(" - ") + strcspn(mount->type, " ");
	*line = '\0';
	unescape(mount->root);
	unescape(mount->place);
	return true;
}

static bool is_bind(const struct oci_mount *mount)
{
	struct mount_options options;
	bool bind;

	if (mount_options_read(mount, &options, NULL) < 0)
		return false;
	bind = options.bind && !options.remount;
	mount_options_free(&options);
	return bind;
}

/* The id of the mount that a destination of config.json leads to, inside. */
static bool find_id(int root, const char *destination, uint64_t *id)
{
	_cleanup_fd_ int fd = path_open_in_root(root, destination, O_PATH, 0, 0, NULL);
	struct statx st;

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0 ||
	    !(st.stx_mask & STATX_MNT_ID))
		return false;
	*id = st.stx_mnt_id;
	return true;
}

/* The last one of config.json that is there; a destination may be given by another name. */
static const char *find_bind(const struct oci_config *config, int root, uint64_t id)
{
	const char *found = NULL;

	for (size_t i = 0; i < config->n_mounts; i++) {
		uint64_t its;

		if (is_bind(&config->mounts[i]) &&
		    find_id(root, config->mounts[i].destination, &its) && its == id)
			found = config->mounts[i].destination;
	}
	return found;
}

/* Without a cgroup namespace, hierarchies of v1 are the host's own, bound (cgroupfs.c). To be
 * freed. */
static char *find_hierarchy(const struct oci_linux *linux_, const struct mountinfo *mount)
{
	const char *name = strrchr(mount->place, '/') + 1;
	_cleanup_free_ char *host = xasprintf(CGROUP_MOUNT "/%s", name);
	struct stat st;

	for (size_t i = 0; linux_ && i < linux_->n_namespaces; i++)
		if (str_eq(linux_->namespaces[i].type, "cgroup"))
			return NULL;
	if (!str_starts_with(mount->type, "cgroup") || !*name || stat(host, &st) < 0 ||
	    st.st_dev != mount->device)
		return NULL;
	return xasprintf(CGROUP_ORIGIN "%s", name);
}

static void classify(const struct container *container, int root, dev_t devices,
		     const struct mountinfo *mount, struct image_mounts *mounts)
{
	const char *origin;
	_cleanup_free_ char *device = NULL, *hierarchy = NULL;

	if (str_eq(mount->place, "/"))
		return;
	origin = find_bind(container->config, root, mount->id);
	if (!origin && mount->device == devices && !str_eq(mount->root, "/"))
		origin = device = xasprintf("/dev%s", mount->root);
	if (!origin)
		origin = hierarchy = find_hierarchy(container->config->linux_, mount);
	if (origin)
		add(mounts, mount->place, origin);
}

int image_mounts_find(const struct container *container, struct image_mounts *mounts,
		      struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/mountinfo", (int)container->pid);
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, MOUNTINFO_MAX, NULL, err);
	_cleanup_free_ char *root_path = xasprintf("/proc/%d/root", (int)container->pid);
	_cleanup_fd_ int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mountinfo mount;
	struct stat null;
	char *rest = text, *line;

	if (!text)
		return -1;
	if (root < 0 || stat("/dev/null", &null) < 0)
		return err_set(err, errno, "look at the mounts of container %s", container->id);
	while (rest && (line = strsep(&rest, "\n")))
		if (parse_line(line, &mount))
			classify(container, root, null.st_dev, &mount, mounts);
	return 0;
}

int image_mounts_write(const struct image_mounts *mounts, int dirfd, struct err *err)
{
	struct json_writer *writer = json_writer_new(" ");
	_cleanup_free_ char *text = NULL;
	size_t size;

	json_begin_object(writer);
	for (size_t i = 0; i < mounts->count; i++) {
		json_put_string(writer, mounts->items[i].place);
		json_put_string(writer, mounts->items[i].origin);
	}
	json_end_object(writer);
	text = json_writer_finish(writer, &size);
	return file_replace(dirfd, MOUNTS_FILE, text, size, 0600, err);
}

/* As far as config.json tells: another runtime has kept no list. */
static void guess(const struct oci_config *config, struct image_mounts *mounts)
{
	const struct oci_linux *linux_ = config->linux_;

	for (size_t i = 0; i < config->n_mounts; i++)
		if (is_bind(&config->mounts[i]))
			add(mounts, config->mounts[i].destination, config->mounts[i].destination);
	for (size_t i = 0; linux_ && i < linux_->n_masked_paths; i++)
		add(mounts, linux_->masked_paths[i], "/dev/null");
}

int image_mounts_read(const struct container *container, int dirfd, struct image_mounts *mounts,
		      struct err *err)
{
	struct json_document *document;
	size_t size;
	_cleanup_free_ char *text = file_read(dirfd, MOUNTS_FILE, JSON_SIZE_MAX, &size, err);

	if (!text && err->code == ENOENT)
		return guess(container->config, mounts), 0;
	if (!text)
		return -1;
	document = json_parse(text, size, MOUNTS_FILE, 0, err);
	if (!document)
		return -1;
	for (const struct json *one = json_root(document)->first; one; one = one->next)
		if (one->name && one->kind == JSON_STRING)
			add(mounts, one->name, one->text);
	json_free(document);
	return 0;
}

char *image_mount_source(const struct container *container, const struct image_mount *mount,
			 struct err *err)
{
	const struct oci_config *config = container->config;

	for (size_t i = config->n_mounts; i > 0; i--) {
		const struct oci_mount *given = &config->mounts[i - 1];

		if (str_eq(given->destination, mount->origin) && is_bind(given))
			return given->source[0] == '/'
				       ? xstrdup(given->source)
				       : xasprintf("%s/%s", container->bundle, given->source);
	}
	if (str_starts_with(mount->origin, CGROUP_ORIGIN) && container->cgroup_path) {
		const char *name = mount->origin + strlen(CGROUP_ORIGIN);

		if (path_is_clean(name) && !strchr(name, '/'))
			return xasprintf(CGROUP_MOUNT "/%s%s", name, container->cgroup_path);
	}
	if (str_starts_with(mount->origin, "/dev/") && path_is_clean(mount->origin + 1))
		return xstrdup(mount->origin);
	err_set(err, 0,
		"the image has a mount at %s, for which config.json has no bind mount with "
		"destination %s",
		mount->place, mount->origin);
	return NULL;
}
