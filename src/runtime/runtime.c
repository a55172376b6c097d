/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the command line, the program's name and the operator's file ask of every container. */
#include "runtime/private.h"

#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/settings.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_PATH "/etc/moat/moat.json"
#define SETTINGS_MAX  (1u << 20)

static int load_settings(struct runtime *runtime, const char *path, struct err *err)
{
	size_t size;
	const char *name = path ? path : SETTINGS_PATH;
	_cleanup_free_ char *text = file_read_regular(AT_FDCWD, name, SETTINGS_MAX, &size, err);

	if (!text && (path || err->code != ENOENT)) {
		err_wrap(err, "read the operator's file");
		return path ? err_hint(err, "--config names it") : -1;
	}
	runtime->settings = text ? moat_settings_parse(text, size, name, err)
				 : moat_settings_parse("{}", 2, name, err);
	if (!runtime->settings || annotations_check(runtime->settings, name, err) < 0)
		return -1;
	if (sandbox_capabilities_check(runtime->settings, name, err) < 0)
		return -1;
	return block_devices_check(runtime->settings, name, err);
}

static int choose_isolation(struct runtime *runtime, const struct runtime_options *options,
			    struct err *err)
{
	const char *slash = strrchr(options->program, '/');
	const char *name = slash ? slash + 1 : options->program;

	if (options->isolation)
		return isolation_parse("--isolation", options->isolation, &runtime->isolation, err);
	if (str_starts_with(name, "moat-"))
		return isolation_parse("the program's name after 'moat-'", name + 5,
				       &runtime->isolation, err);
	if (runtime->settings->level)
		return isolation_parse("the operator's file: level", runtime->settings->level,
				       &runtime->isolation, err);
	runtime->isolation = ISOLATION_VM;
	return 0;
}

static int choose_root(struct runtime *runtime, const struct runtime_options *options,
		       struct err *err)
{
	const char *run = getenv("XDG_RUNTIME_DIR"), *root = options->root;

	runtime->root_from = root ? "--root" : "\"stateRoot\" of the operator's file";
	if (!root)
		root = runtime->settings->state_root;
	if (!root)
		runtime->root_from = NULL;
	if (root && root[0] == '/') {
		runtime->root = xstrdup(root);
	} else if (root) {
		_cleanup_free_ char *here = getcwd(NULL, 0);

		if (!here)
			return err_set(err, errno, "find the current directory");
		runtime->root = xasprintf("%s/%s", here, root);
	} else if (geteuid() == 0 && (!run || !*run || proc_is_machines_root())) {
		runtime->root = xstrdup("/run/moat");
	} else if (run && *run) {
		runtime->root = xasprintf("%s/moat", run);
	}
	return options->stateless ? 0 : runtime_need_root(runtime, err);
}

int runtime_root_failed(const struct runtime *runtime, struct err *err)
{
	return runtime->root_from ? err_hint(err, "%s names it", runtime->root_from) : -1;
}

int runtime_need_root(const struct runtime *runtime, struct err *err)
{
	if (runtime->root)
		return 0;
	return err_set(err, 0,
		       "nowhere to keep the containers' state: XDG_RUNTIME_DIR is not set; give "
		       "--root DIR");
}

static int choose_cgroups(struct runtime *runtime, const char *manager, struct err *err)
{
	if (!manager || str_eq(manager, "cgroupfs"))
		return 0;
	if (str_eq(manager, "disabled")) {
		runtime->no_cgroup = true;
		return 0;
	}
	if (str_eq(manager, "systemd")) {
		runtime->systemd = true;
		return 0;
	}
	return err_set(err, 0,
		       "--cgroup-manager: expected cgroupfs, systemd or disabled, found "
		       "'%.64s'",
		       manager);
}

int runtime_open(struct runtime *runtime, const struct runtime_options *options, struct err *err)
{
	if (load_settings(runtime, options->settings_path, err) < 0 ||
	    choose_isolation(runtime, options, err) < 0 || choose_root(runtime, options, err) < 0)
		return -1;
	return choose_cgroups(runtime, options->cgroup_manager, err);
}

void runtime_close(struct runtime *runtime)
{
	free(runtime->root);
	moat_settings_free(runtime->settings);
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char **runtime_list(const struct runtime *runtime, struct err *err)
{
	_cleanup_(strings_free_pointer) char **ids = xcalloc(1, sizeof(char *));
	DIR *dir = opendir(runtime->root);
	struct dirent *entry;
	size_t count = 0;

	if (!dir && errno == ENOENT)
		return steal(ids);
	if (!dir) {
		err_set(err, errno, "read directory %s", runtime->root);
		return runtime_root_failed(runtime, err), NULL;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || entry->d_type != DT_DIR)
			continue;
		ids = xrealloc(ids, count + 2, sizeof(char *));
		ids[count++] = xstrdup(entry->d_name);
		ids[count] = NULL;
	}
	closedir(dir);
	qsort(ids, count, sizeof(char *), compare_strings);
	return steal(ids);
}

void strings_free(char **strings)
{
	for (char **s = strings; s && *s; s++)
		free(*s);
	free(strings);
}
