/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The path of a container's cgroup, out of config.json's linux.cgroupsPath. */
#include "cgroup/layout.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/config.h"

#include <stdio.h>
#include <string.h>

/* Two slashes in a row and slashes at the end mean nothing. */
static void squeeze(char *path)
{
	char *out = path;

	for (const char *in = path; *in; in++)
		if (*in != '/' || (in[1] != '/' && in[1]))
			*out++ = *in;
	*out = '\0';
}

/* The cgroup that holds the caller's own one: "/a" for "/a/b", "" for "/" and "/a". */
static char *own_parent(struct err *err)
{
	const struct layout *layout = layout_get();
	char *own, *slash;

	if (layout->kind == CGROUP_V2)
		own = layout_own("", err);
	else if (layout_find(layout, "name=systemd"))
		own = layout_own("name=systemd", err);
	else if (layout->n_v1)
		own = layout_own(layout->v1[0].controllers, err);
	else
		own = xstrdup("/");
	if (!own)
		return NULL;
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	if (strstr(own, "/..")) { /* outside of the cgroup namespace: of no use as a place */
		err_set(err, 0,
			"place the container beside the caller's own cgroup: it lies outside "
			"of the cgroup namespace");
		err_hint(err, "give an absolute linux.cgroupsPath");
		free(own);
		return NULL;
	}
	return own;
}

char *cgroup_resolve(const struct oci_linux *config, const char *id, struct err *err)
{
	const char *given = config && config->cgroups_path ? config->cgroups_path : "";
	_cleanup_free_ char *inner = *given ? xstrdup(given) : xasprintf("moat/%s", id);
	_cleanup_free_ char *parent = NULL;
	bool absolute = inner[0] == '/';

	squeeze(inner);
	if (!inner[absolute] || !path_is_clean(inner + absolute)) {
		err_set(err, 0,
			"use linux.cgroupsPath '%.200s': it must name a cgroup, without \"..\"",
			given);
		return NULL;
	}
	if (absolute)
		return steal(inner);
	parent = own_parent(err);
	return parent ? xasprintf("%s/%s", parent, inner) : NULL;
}

int cgroup_below(const char *path, const char *below, char **result, struct err *err)
{
	*result = NULL;
	while (below && *below == '/')
		below++;
	if (!below || !*below) {
		*result = path ? xstrdup(path) : NULL;
		return 0;
	}
	if (!path)
		return err_set(err, 0, "--cgroup %s: the container has no cgroup of its own",
			       below);
	if (strchr(below, ':'))
		return err_set(err, 0,
			       "--cgroup %s: a path for one controller only is not supported",
			       below);
	if (!path_is_clean(below))
		return err_set(err, 0,
			       "--cgroup %s: the path must not leave the container's cgroup",
			       below);
	*result = xasprintf("%s/%s", path, below);
	return 0;
}

char *cgroup_where(const char *path, pid_t pid)
{
	_cleanup_free_ char *its = NULL;
	size_t length = strlen(path);

	if (layout_get()->kind == CGROUP_V2)
		its = layout_of(pid, NULL);
	if (!its || !str_starts_with(its, path) || its[length] != '/')
		return xstrdup(path);
	return steal(its);
}
