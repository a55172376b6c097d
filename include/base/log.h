/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log: what --log, --log-format and --debug choose. Without --log, lines go to stderr.
 * Engines read the JSON form: {"level":…,"msg":…,"time":…}.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_DEBUG };

/*
 * log_open() - where log lines go from now on.
 * @path: file to append to, created with mode 0600; NULL for stderr.
 * @json: one JSON object a line; else "time level message" (to stderr: "moat: message").
 * @debug: also LOG_LEVEL_DEBUG.
 *
 * Returns 0, or -1 with err set.
 */
int log_open(const char *path, bool json, bool debug, struct err *err);

/* log_fd() - the log file's descriptor, -1 where lines go to stderr: for those who close all. */
int log_fd(void);

bool log_debug_enabled(void);

/* log_line() - one line; control characters in it are escaped. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_debug_enabled())                                                           \
			log_line(LOG_LEVEL_DEBUG, __VA_ARGS__);                                    \
	} while (0)
