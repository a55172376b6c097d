/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranges of ids. A symbolic link in one directory for each: named by the first id, it leads to the
 * state directory of the container that has the range. A link that leads nowhere is of a container
 * that is gone.
 */
#include "runtime/ids.h"

#include "base/fd.h"
#include "base/str.h"
#include "oci/settings.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define REGISTRY "/run/moat-ids"

/* Returns the directory, locked; -1 with errno set. The lock goes with the descriptor. */
static int registry_open(bool make)
{
	for (int try = 0; try < 100; try++) {
		_cleanup_fd_ int fd = -1;
		struct stat st;

		if (make && mkdir(REGISTRY, 0700) < 0 && errno != EEXIST)
			return -1;
		fd = open(REGISTRY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && make)
			continue;
		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
			return -1;
		if (st.st_uid != geteuid() || (st.st_mode & 022)) {
			errno = EPERM;
			return -1;
		}
		if (st.st_nlink) /* else the last container before us removed it */
			return fd_steal(&fd);
	}
	errno = EBUSY;
	return -1;
}

static bool read_owner(int registry, const char *name, char owner[PATH_MAX])
{
	ssize_t n = readlinkat(registry, name, owner, PATH_MAX - 1);

	if (n < 0)
		return false;
	owner[n] = '\0';
	return true;
}

/* Lines of /etc/subuid: NAME:FIRST:COUNT. */
static bool is_delegated(const char *path, uint64_t base)
{
	FILE *file = fopen(path, "re");
	bool found = false;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned long long first, count;

		if (sscanf(line, "%*[^:]:%llu:%llu", &first, &count) == 2)
			found = first < base + IDS_RANGE && base < first + count;
	}
	if (file)
		fclose(file);
	return found;
}

/* Returns 1 where the range is ours now, 0 where it is another's, -1 with errno set. */
static int take(int registry, uint64_t base, const char *state_path)
{
	char name[16], owner[PATH_MAX];

	snprintf(name, sizeof(name), "%u", (uint32_t)base);
	for (int try = 0; try < 2; try++) {
		if (symlinkat(state_path, registry, name) == 0)
			return 1;
		if (errno != EEXIST || !read_owner(registry, name, owner))
			return -1;
		if (access(owner, F_OK) == 0 || errno != ENOENT)
			return 0;
		unlinkat(registry, name, 0);
	}
	return 0;
}

int ids_allocate(const struct moat_sandbox *settings, const char *state_path, uint32_t *base,
		 struct err *err)
{
	_cleanup_fd_ int registry = registry_open(true);

	if (registry < 0)
		return err_set(err, errno, "open " REGISTRY " for the containers' ids");
	for (uint64_t i = 0; i < settings->id_ranges; i++) {
		uint64_t first = settings->id_base + i * IDS_RANGE;
		int r;

		if (first + IDS_RANGE > UINT32_MAX) /* the last id means "none" */
			break;
		if (is_delegated("/etc/subuid", first) || is_delegated("/etc/subgid", first))
			continue;
		r = take(registry, first, state_path);
		if (r < 0)
			return err_set(err, errno, "take a range of ids in " REGISTRY);
		if (r > 0) {
			*base = (uint32_t)first;
			return 0;
		}
	}
	return err_set(
		err, 0,
		"every range of ids is taken: raise sandbox.idRanges in the operator's file");
}

void ids_free(const char *state_path)
{
	int registry = registry_open(false), again = registry < 0 ? -1 : dup(registry);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	char owner[PATH_MAX];
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_LNK && read_owner(registry, entry->d_name, owner) &&
		    str_eq(owner, state_path))
			unlinkat(registry, entry->d_name, 0);
	if (dir)
		closedir(dir);
	else
		fd_close_pointer(&again);
	if (registry < 0)
		return;
	rmdir(REGISTRY); /* refused while it has others */
	close(registry);
}
