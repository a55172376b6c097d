/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The standard streams of a container's first process across an image: pipes and files of the host,
 * in whose place the restored process gets the streams of who restores it.
 */
#include "sandbox/image.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define STREAMS_FILE  "descriptors.json"
#define MOUNTINFO_MAX (16u << 20)

/* The id of the mount that a descriptor's file lies on, as fdinfo tells. */
static bool read_mount_id(pid_t pid, int fd, uint64_t *id)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/fdinfo/%d", (int)pid, fd);
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, 65536, NULL, NULL);
	char *line = text ? strstr(text, "mnt_id:") : NULL;

	if (!line)
		return false;
	line += strlen("mnt_id:");
	line += strspn(line, "\t ");
	line[strcspn(line, "\n")] = '\0';
	return str_to_u64(line, UINT32_MAX, id) == 0;
}

static bool has_mount(const char *mountinfo, uint64_t id)
{
	_cleanup_free_ char *start = xasprintf("%" PRIu64 " ", id);
	const char *line = mountinfo;

	while (line && *line) {
		if (str_starts_with(line, start))
			return true;
		line = strchr(line, '\n');
		line += line ? 1 : 0;
	}
	return false;
}

/* What CRIU is to call a stream; to be freed. One that it finds inside keeps its path. */
static char *name_stream(pid_t pid, int fd, const char *mountinfo, struct image_request *request)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/fd/%d", (int)pid, fd);
	char target[PATH_MAX], *key;
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	struct stat st;
	uint64_t id;

	if (n < 0 || stat(path, &st) < 0)
		return xstrdup("");
	target[n] = '\0';
	if (target[0] != '/' || !read_mount_id(pid, fd, &id) || has_mount(mountinfo, id))
		return xstrdup(target);
	key = S_ISCHR(st.st_mode) && major(st.st_rdev) != 1
		      ? xasprintf("tty[%" PRIx64 ":%" PRIx64 "]", (uint64_t)st.st_rdev,
				  (uint64_t)st.st_dev)
		      : xasprintf("file[%" PRIx64 ":%" PRIx64 "]", id, (uint64_t)st.st_ino);
	image_add_external(request, "%s", key);
	return key;
}

int image_streams_find(const struct container *container, struct image_request *request,
		       char *streams[3], struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/mountinfo", (int)container->pid);
	_cleanup_free_ char *mountinfo = file_read(AT_FDCWD, path, MOUNTINFO_MAX, NULL, err);

	if (!mountinfo)
		return -1;
	for (int i = 0; i < 3; i++)
		streams[i] = name_stream(container->pid, i, mountinfo, request);
	return 0;
}

int image_streams_write(char *const streams[3], int dirfd, struct err *err)
{
	struct json_writer *writer = json_writer_new(NULL);
	_cleanup_free_ char *text = NULL;
	size_t size;

	json_begin_array(writer);
	for (int i = 0; i < 3; i++)
		json_put_string(writer, streams[i]);
	json_end_array(writer);
	text = json_writer_finish(writer, &size);
	return file_replace(dirfd, STREAMS_FILE, text, size, 0600, err);
}

int image_streams_read(int dirfd, char *streams[3], struct err *err)
{
	struct json_document *document;
	size_t size;
	_cleanup_free_ char *text = file_read(dirfd, STREAMS_FILE, JSON_SIZE_MAX, &size, err);
	int i = 0;

	if (!text)
		return err->code == ENOENT ? 0 : -1;
	document = json_parse(text, size, STREAMS_FILE, 0, err);
	if (!document)
		return -1;
	for (const struct json *one = json_root(document)->first; one && i < 3; one = one->next)
		streams[i++] = xstrdup(one->kind == JSON_STRING ? one->text : "");
	json_free(document);
	return 0;
}
