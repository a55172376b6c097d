/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation that does not come back empty-handed. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *p)
{
	static const char text[] = "moat: out of memory\n";

	if (!p) {
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		_exit(125);
	}
	return p;
}

void *xcalloc(size_t count, size_t size)
{
	return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t count, size_t size)
{
	return checked(reallocarray(p, count ? count : 1, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return checked(n < 0 ? NULL : s);
}
