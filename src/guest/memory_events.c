/* SPDX-License-Identifier: GPL-2.0-or-later */
/* memory.events: one "name count" a line. */
#include "guest/memory_events.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>

#define FILE_MAX 4096

uint64_t memory_events_oom_kills(const char *cgroup)
{
	static const char name[] = "oom_kill ";
	_cleanup_free_ char *path = xasprintf("/sys/fs/cgroup%s/memory.events", cgroup);
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, FILE_MAX, NULL, NULL);
	uint64_t count = 0;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (str_starts_with(line, name))
			str_to_u64(line + strlen(name), UINT64_MAX, &count);
	return count;
}
