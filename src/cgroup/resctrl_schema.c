/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of a schemata file: "RESOURCE:DOMAIN=VALUE;DOMAIN=VALUE…" each. */
#include "cgroup/resctrl_schema.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>

#define SCHEMATA_MAX (1u << 20)

bool resctrl_has_schema(const struct oci_intel_rdt *config)
{
	return (config->l3_cache_schema && *config->l3_cache_schema) ||
	       (config->mem_bw_schema && *config->mem_bw_schema) || config->n_schemata;
}

/* Adds the lines of text, but for those that begin with `but`. */
static char *add_lines(char *before, const char *text, const char *but)
{
	_cleanup_free_ char *copy = xstrdup(text ? text : "");
	char *rest = copy;

	for (char *line; (line = strsep(&rest, "\n"));) {
		char *longer;

		line += strspn(line, " \t");
		if (!*line || (but && str_starts_with(line, but)))
			continue;
		longer = xasprintf("%s%s\n", before, line);
		free(before);
		before = longer;
	}
	return before;
}

/* All that is wanted, a line each. Bandwidth in l3CacheSchema does not count (config-linux). */
static char *wanted_lines(const struct oci_intel_rdt *config)
{
	char *text = add_lines(xstrdup(""), config->l3_cache_schema, "MB:");

	text = add_lines(text, config->mem_bw_schema, NULL);
	for (size_t i = 0; i < config->n_schemata; i++)
		text = add_lines(text, config->schemata[i], NULL);
	return text;
}

int resctrl_write(const char *root, const char *group, const struct oci_intel_rdt *config,
		  struct err *err)
{
	_cleanup_free_ char *text = wanted_lines(config), *reason = NULL;
	_cleanup_free_ char *path = xasprintf("%s/schemata", group);
	_cleanup_free_ char *status = xasprintf("%s/info/last_cmd_status", root);

	if (file_write(AT_FDCWD, path, text, err) == 0)
		return 0;
	reason = file_read(AT_FDCWD, status, SCHEMATA_MAX, NULL, NULL);
	if (reason) {
		reason[strcspn(reason, "\n")] = '\0';
		err_hint(err, "the kernel says: %s", reason);
	}
	return -1;
}

static bool same_value(const char *a, size_t a_size, const char *b, size_t b_size)
{
	for (; a_size > 1 && *a == '0'; a_size--)
		a++;
	for (; b_size > 1 && *b == '0'; b_size--)
		b++;
	return a_size == b_size && strncasecmp(a, b, a_size) == 0;
}

/* Whether a line of the file has DOMAIN=VALUE, an item of `size` bytes. */
static bool has_item(const char *line, const char *item, size_t size)
{
	size_t name = strcspn(item, "=;\n");

	if (name >= size)
		return false;
	for (line = strchr(line, ':'); line && *line && *line != '\n';) {
		size_t n;

		line += 1 + strspn(line + 1, " ");
		n = strcspn(line, ";\n");
		if (n > name && strncmp(line, item, name + 1) == 0)
			return same_value(line + name + 1, n - name - 1, item + name + 1,
					  size - name - 1);
		line += n;
	}
	return false;
}

/* The line of the file for the resource that `wanted` begins with, or NULL. */
static const char *find_line(const char *file, const char *wanted)
{
	size_t name = strcspn(wanted, ":\n") + 1;

	for (const char *line = file; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		line += strspn(line, " ");
		if (strncmp(line, wanted, name) == 0)
			return line;
	}
	return NULL;
}

static bool line_matches(const char *file, const char *wanted)
{
	const char *line = strchr(wanted, ':') ? find_line(file, wanted) : NULL;
	const char *item = strchr(wanted, ':');

	if (!line)
		return false;
	do {
		size_t size;

		item += 1 + strspn(item + 1, " ");
		size = strcspn(item, ";");
		if (size && !has_item(line, item, size))
			return false;
		item += size;
	} while (*item);
	return true;
}

int resctrl_compare(const char *group, const struct oci_intel_rdt *config, struct err *err)
{
	_cleanup_free_ char *text = wanted_lines(config), *file = NULL;
	_cleanup_free_ char *path = xasprintf("%s/schemata", group);
	char *rest = text;

	if (!resctrl_has_schema(config))
		return 0;
	file = file_read(AT_FDCWD, path, SCHEMATA_MAX, NULL, err);
	if (!file)
		return -1;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line && !line_matches(file, line)) {
			err_set(err, 0,
				"linux.intelRdt: the group %s is there and has other shares than "
				"'%s'",
				group, line);
			return err_hint(err, "ask for those that it has, or name another closID");
		}
	return 0;
}
