/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading of mountinfo for the layers of an overlay. */
#include "sandbox/idmap_layers.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* mountinfo's own escapes: a backslash and three octal digits. */
static void unescape_octal(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] && text[3]) {
			*out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/* The overlay's own: a backslash before a separator. Cuts at the first one that has none. */
static char *cut(char *text, char separator)
{
	char *out = text, *next;

	for (; *text && *text != separator; text++) {
		if (*text == '\\' && text[1])
			text++;
		*out++ = *text;
	}
	next = *text ? text + 1 : NULL;
	*out = '\0';
	return next;
}

static int add_lower(struct layers *layers, const char *path, struct err *err)
{
	if (!*path) /* "::" stands before layers that hold data only */
		return err_set(err, 0, "its layers of data only are not supported");
	if (layers->n_lower == LAYERS_MAX)
		return err_set(err, 0, "it has more than %d layers", LAYERS_MAX);
	layers->lower[layers->n_lower++] = path;
	return 0;
}

static int read_option(struct layers *layers, char *option, struct err *err)
{
	static const char *const kept[] = { "redirect_dir=", "index=", "metacopy=",
					    "nfs_export=",   "xino=",  "userxattr" };
	size_t used = strlen(layers->extra);

	if (str_starts_with(option, "lowerdir=")) {
		for (char *rest = option + 9, *path; (path = rest);) {
			rest = cut(path, ':');
			if (add_lower(layers, path, err) < 0)
				return -1;
		}
	} else if (str_starts_with(option, "lowerdir+=")) {
		cut(option + 10, '\0');
		return add_lower(layers, option + 10, err);
	} else if (str_starts_with(option, "upperdir=")) {
		cut(option + 9, '\0');
		layers->upper = option + 9;
	} else if (str_starts_with(option, "workdir=")) {
		cut(option + 8, '\0');
		layers->work = option + 8;
	}
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (str_starts_with(option, kept[i]))
			snprintf(layers->extra + used, sizeof(layers->extra) - used, ",%s", option);
	return 0;
}

int layers_read(struct layers *layers, char *text, struct err *err)
{
	char *rest = text;

	layers->text = text;
	snprintf(layers->extra, sizeof(layers->extra), "rw");
	while (rest) {
		char *option = rest, *end = rest;

		while (*end && *end != ',')
			end += *end == '\\' && end[1] ? 2 : 1;
		rest = *end ? end + 1 : NULL;
		*end = '\0';
		if (read_option(layers, option, err) < 0)
			return -1;
	}
	if (!layers->n_lower || !layers->upper != !layers->work)
		return err_set(err, 0, "its layers are not known");
	return 0;
}

/*
 * Engines with many layers give paths relative to where all of them lie, to keep the options short:
 * that is two above the upper layer (SNAPSHOT/fs), or above the place that it is mounted on
 * (ID/merged), where the upper layer is relative as well.
 */
static char *find_base(const struct layers *layers, const char *place)
{
	const char *from = layers->upper && *layers->upper == '/' ? layers->upper : place;
	char *base = xstrdup(from);

	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(base, '/');

		if (!slash || slash == base) {
			free(base);
			return NULL;
		}
		*slash = '\0';
	}
	return base;
}

char *layers_path(const struct layers *layers, const char *path, struct err *err)
{
	if (*path == '/')
		return xstrdup(path);
	if (layers->base)
		return xasprintf("%s/%s", layers->base, path);
	err_set(err, 0, "where its layer %s is cannot be told", path);
	return NULL;
}

/* "36 35 98:0 /root /mount/point options... - overlay source LAYERS" */
static int read_line(struct layers *layers, char *line, const char *path, struct err *err)
{
	char *fields[5], *rest = line, *type = strstr(line, " - overlay ");
	const char *options = type ? strrchr(type, ' ') + 1 : NULL;
	char *text;
	size_t n;

	if (!options)
		return err_set(err, 0, "its mount is none");
	text = xstrdup(options);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		fields[i] = strsep(&rest, " ");
	unescape_octal(fields[3]);
	unescape_octal(fields[4]);
	n = str_eq(fields[4], "/") ? 0 : strlen(fields[4]);
	if (strncmp(path, fields[4], n) != 0) {
		free(text);
		return err_set(err, 0, "its mount is at %s", fields[4]);
	}
	layers->below = xasprintf("%s%s", str_eq(fields[3], "/") ? "" : fields[3], path + n);
	unescape_octal(text);
	if (layers_read(layers, text, err) < 0)
		return -1;
	layers->base = find_base(layers, fields[4]);
	return 0;
}

int layers_find(const char *path, struct layers *layers, struct err *err)
{
	_cleanup_free_ char *text = NULL, *absolute = realpath(path, NULL), *number = NULL;
	struct statx stx;
	char *rest, *line;

	if (!absolute || statx(AT_FDCWD, absolute, AT_NO_AUTOMOUNT, STATX_MNT_ID, &stx) < 0)
		return err_set(err, errno, "find %s", path);
	text = file_read(AT_FDCWD, "/proc/self/mountinfo", 16u << 20, NULL, err);
	if (!text)
		return -1;
	number = xasprintf("%llu ", (unsigned long long)stx.stx_mnt_id);
	for (rest = text; (line = strsep(&rest, "\n"));)
		if (str_starts_with(line, number))
			return read_line(layers, line, absolute, err);
	return err_set(err, 0, "it is not among the caller's mounts");
}

void layers_free(struct layers *layers)
{
	free(layers->text);
	free(layers->base);
	free(layers->below);
}
