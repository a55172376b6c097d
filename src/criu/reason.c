/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why CRIU failed, out of its log: a line of it looks like
 * "(00.012345)     17: Error (criu/mount.c:1234): mnt: what was wrong". The first one is the cause;
 * what follows is its consequences.
 */
#include "criu/reason.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LOG_TAIL   (1u << 20) /* bytes of a log that are looked at */
#define REASON_MAX 400

/* The end of a file. Returns a string to be freed, or NULL. */
static char *read_tail(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > (off_t)LOG_TAIL ? size - (off_t)LOG_TAIL : 0;

	if (size < 0 || lseek(fd, from, SEEK_SET) < 0)
		return NULL;
	return fd_read_text(fd, LOG_TAIL + 4096, NULL);
}

/* These come with every failure, or without any, and say nothing of it. */
static bool says_nothing(const char *text)
{
	static const char *const empty[] = { "Dumping FAILED.", "Restoring FAILED.",
					     "Pre-dumping FAILED.", "RPC client disconnected",
					     "rlimit: Can't setup" };

	for (size_t i = 0; i < ARRAY_LEN(empty); i++)
		if (strstr(text, empty[i]))
			return true;
	return false;
}

static char *find_error(char *text)
{
	char *rest = text, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *error = strstr(line, "Error ("), *message;
		char safe[REASON_MAX];

		message = error ? strstr(error, "): ") : NULL;
		if (!message || says_nothing(message))
			continue;
		message += strlen("): ");
		return xstrdup(str_escape(message, strlen(message), safe, sizeof(safe)));
	}
	return NULL;
}

char *criu_reason(int workdir, const char *log, int spoken)
{
	_cleanup_fd_ int fd = openat(workdir, log, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ char *text = fd < 0 ? NULL : read_tail(fd);
	_cleanup_free_ char *early = read_tail(spoken);
	char *reason = text ? find_error(text) : NULL;

	return reason || !early ? reason : find_error(early);
}
