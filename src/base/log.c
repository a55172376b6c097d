/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The log: one write(2) a line, so that lines of several processes do not mix. */
#include "base/log.h"

#include "base/fd.h"
#include "base/utc.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct {
	int fd;
	bool json, debug;
} sink = { .fd = -1 };

static const char *const level_names[] = { "error", "warning", "debug" };

int log_open(const char *path, bool json, bool debug, struct err *err)
{
	int fd = -1;

	if (path) {
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (fd < 0)
			return err_set(err, errno, "open log file %s", path);
	}
	fd_replace(&sink.fd, fd);
	sink.json = json;
	sink.debug = debug;
	return 0;
}

int log_fd(void)
{
	return sink.fd;
}

bool log_debug_enabled(void)
{
	return sink.debug;
}

/* Escapes for JSON, which also keeps a text line one line. Bytes from 0x80 on pass. */
static void escape(const char *in, char *out, size_t room, bool quotes)
{
	size_t used = 0;

	for (; *in && used + 7 < room; in++) {
		unsigned char c = (unsigned char)*in;

		if (c < 0x20 || c == 0x7f) {
			used += (size_t)snprintf(out + used, room - used, "\\u%04x", c);
		} else {
			if (quotes && (c == '"' || c == '\\'))
				out[used++] = '\\';
			out[used++] = (char)c;
		}
	}
	out[used] = '\0';
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char text[2 * ERR_TEXT_MAX], safe[sizeof(text) * 6 + 8], line[sizeof(safe) + 256],
		stamp[UTC_SIZE] = "";
	int fd = sink.fd >= 0 ? sink.fd : STDERR_FILENO, saved = errno, n;
	struct timespec now;
	va_list ap;

	if (level == LOG_LEVEL_DEBUG && !sink.debug)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	escape(text, safe, sizeof(safe), sink.json);
	if (sink.fd >= 0 || sink.json) {
		/* The coarse clock never needs a system call, which filters may forbid. */
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		utc_format(&now, sink.json ? 9 : 3, stamp);
	}
	if (sink.json)
		n = snprintf(line, sizeof(line),
			     "{\"level\":\"%s\",\"msg\":\"%s\",\"time\":\"%s\"}\n",
			     level_names[level], safe, stamp);
	else if (sink.fd >= 0)
		n = snprintf(line, sizeof(line), "%s %s: %s\n", stamp, level_names[level], safe);
	else
		n = snprintf(line, sizeof(line), "moat: %s%s%s\n",
			     level == LOG_LEVEL_ERROR ? "" : level_names[level],
			     level == LOG_LEVEL_ERROR ? "" : ": ", safe);
	(void)fd_write_full(fd, line, (size_t)n);
	errno = saved;
}
