/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The error object: text in a fixed buffer, cut where it would not fit. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	size_t used;
	int n;

	if (!err)
		return -1;
	err->code = code;
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	used = n < 0 ? 0 : (size_t)n;
	if (code > 0 && code < ERR_PROGRAM_NOT_FOUND && used < sizeof(err->text))
		snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(code));
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[ERR_TEXT_MAX];
	va_list ap;
	size_t used;
	int n;

	if (!err)
		return -1;
	memcpy(inner, err->text, sizeof(inner));
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	used = n < 0 ? 0 : (size_t)n;
	if (used < sizeof(err->text))
		snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
	return -1;
}

int err_hint(struct err *err, const char *fmt, ...)
{
	va_list ap;
	size_t used;

	if (!err)
		return -1;
	used = strnlen(err->text, sizeof(err->text));
	if (used + 3 >= sizeof(err->text))
		return -1;
	memcpy(err->text + used, "; ", 3);
	used += 2;
	va_start(ap, fmt);
	vsnprintf(err->text + used, sizeof(err->text) - used, fmt, ap);
	va_end(ap);
	return -1;
}
