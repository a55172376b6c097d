/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list of what to write to a cgroup's files, and the writing. */
#include "cgroup/settings.h"

#include "base/fd.h"
#include "base/str.h"
#include "cgroup/layout.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

struct setting *settings_add(struct settings *settings, const char *controller, const char *file,
			     const char *fmt, ...)
{
	struct setting *s;
	va_list ap;

	settings->items = xrealloc(settings->items, settings->count + 1, sizeof(*settings->items));
	s = &settings->items[settings->count++];
	*s = (struct setting){ .controller = controller, .file = xstrdup(file) };
	va_start(ap, fmt);
	if (vasprintf(&s->value, fmt, ap) < 0)
		s->value = xstrdup("");
	va_end(ap);
	return s;
}

void settings_free(struct settings *settings)
{
	for (size_t i = 0; i < settings->count; i++) {
		struct setting *s = &settings->items[i];

		free(s->file);
		free(s->value);
		free(s->other_file);
		free(s->other_value);
	}
	free(settings->items);
	*settings = (struct settings){ 0 };
}

/* What to do where the kernel has no such file. */
static void hint(const char *file, struct err *err)
{
	if (strstr(file, "swap") || strstr(file, "memsw"))
		err_hint(err, "boot with swapaccount=1");
	else if (strstr(file, "weight") && strstr(file, "io."))
		err_hint(err, "no I/O scheduler here knows weights: select bfq, or a kernel with "
			      "CONFIG_BLK_CGROUP_IOCOST");
	else if (str_starts_with(file, "cpu.rt_"))
		err_hint(err, "it takes a kernel with CONFIG_RT_GROUP_SCHED");
	else
		err_hint(err, "the running kernel does not have it");
}

/* Returns 0, or an errno value. */
static int write_text(int dirfd, const char *file, const char *text)
{
	_cleanup_fd_ int fd = openat(dirfd, file, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno;
	do
		n = write(fd, text, strlen(text));
	while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

static int write_setting(const struct setting *s, int dirfd)
{
	int code = write_text(dirfd, s->file, s->value);

	if (code == ENOENT && s->other_file)
		code = write_text(dirfd, s->other_file, s->other_value);
	return code == ENOENT && s->may_lack ? 0 : code;
}

static int refused(const struct setting *s, const char *path, int code, struct err *err)
{
	err_set(err, code, "set %s of cgroup %s to '%.100s'", s->file, path, s->value);
	if (code == ENOENT)
		hint(s->file, err);
	return -1;
}

int settings_write(struct settings *settings, int dirfd, const char *path, const char *controllers,
		   struct err *err)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < settings->count; i++) {
			struct setting *s = &settings->items[i];
			int code;

			if (pass > 0 && !s->deferred)
				continue;
			if (controllers && !(s->controller && list_has(controllers, s->controller)))
				continue;
			code = write_setting(s, dirfd);
			s->deferred = pass == 0 && (code == EINVAL || code == EBUSY);
			if (code && !s->deferred)
				return refused(s, path, code, err);
		}
	}
	return 0;
}
