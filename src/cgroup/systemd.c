/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scopes of systemd for containers: their names, how they are made, changed and ended. */
#include "cgroup/systemd.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/systemd_bus.h"
#include "cgroup/systemd_properties.h"
#include "oci/config.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define DEFAULT_PREFIX "moat"

const bool systemd_available = true;

/* Of annotations: these change nothing of what a container may use. */
static const char *const harmless[] = { "CollectMode", "Description", "KillSignal",
					"TimeoutStopSec", "TimeoutStopUSec" };

static bool is_slice(const char *name)
{
	size_t n = strlen(name);

	return str_ends_with(name, ".slice") && n > strlen(".slice") && !strchr(name, '/');
}

/* "a-b.slice" lies in "a.slice": "/a.slice/a-b.slice". To be freed; NULL where it cannot be. */
static char *expand_slice(const char *slice)
{
	size_t n = strlen(slice) - strlen(".slice");
	char *path = xstrdup("");

	if (str_eq(slice, "-.slice"))
		return path;
	for (size_t i = 1; i <= n; i++) {
		char *longer;

		if (i < n && slice[i] != '-')
			continue;
		if (slice[i - 1] == '-') { /* an empty part */
			free(path);
			return NULL;
		}
		longer = xasprintf("%s/%.*s.slice", path, (int)i, slice);
		free(path);
		path = longer;
	}
	return path;
}

/* SLICE:PREFIX:NAME, taken apart. */
struct place {
	char *text;
	const char *slice, *prefix, *name;
};

static void place_free(struct place *place)
{
	free(place->text);
}

static int read_place(struct place *place, const char *given, const char *id, struct err *err)
{
	char *rest;

	*place = (struct place){ .slice = "", .prefix = DEFAULT_PREFIX, .name = id };
	if (given && *given) {
		rest = place->text = xstrdup(given);
		place->slice = strsep(&rest, ":");
		place->prefix = strsep(&rest, ":");
		place->name = rest;
		if (!place->name || !*place->name || strchr(place->name, ':'))
			return err_set(err, 0,
				       "use linux.cgroupsPath '%.200s' with systemd: expected "
				       "SLICE:PREFIX:NAME",
				       given);
	}
	if (!*place->slice)
		place->slice = proc_is_machines_root() ? "system.slice" : "user.slice";
	if (!is_slice(place->slice))
		return err_set(err, 0,
			       "use linux.cgroupsPath '%.200s' with systemd: '%.64s' is not the "
			       "name of a slice",
			       given, place->slice);
	if (strchr(place->name, '/') || strchr(place->prefix, '/') ||
	    str_ends_with(place->name, ".slice"))
		return err_set(err, 0,
			       "use linux.cgroupsPath '%.200s' with systemd: a container gets a "
			       "scope, for which '%.64s' is no name",
			       given ? given : "", place->name);
	return 0;
}

char *systemd_resolve(const struct oci_linux *config, const char *id, char **unit, struct err *err)
{
	_cleanup_(bus_close_pointer) struct bus *bus = NULL;
	_cleanup_(place_free) struct place place = { 0 };
	_cleanup_free_ char *parent = NULL, *top = NULL;

	if (cgroup_layout() != CGROUP_V2)
		return err_set(err, 0,
			       "use the systemd cgroup driver: it takes cgroup v2, and this "
			       "machine has v1 (leave out --systemd-cgroup)"),
		       NULL;
	if (read_place(&place, config ? config->cgroups_path : NULL, id, err) < 0)
		return NULL;
	parent = expand_slice(place.slice);
	if (!parent)
		return err_set(err, 0, "use the slice %.200s: a part of its name is empty",
			       place.slice),
		       NULL;
	bus = bus_open(err);
	top = bus ? bus_control_group(bus, err) : NULL;
	if (!top)
		return NULL;
	*unit = *place.prefix ? xasprintf("%s-%s.scope", place.prefix, place.name)
			      : xasprintf("%s.scope", place.name);
	return xasprintf("%s%s/%s", str_eq(top, "/") ? "" : top, parent, *unit);
}

int systemd_annotation_check(const char *name, char *const *allowed, size_t n_allowed,
			     struct err *err)
{
	const char *property = name + strlen(SYSTEMD_ANNOTATION);

	if (!systemd_annotation_has_name(name))
		return err_set(
			err, 0,
			"annotation %.100s: expected the name of a unit's property in letters "
			"behind the last dot, as in " SYSTEMD_ANNOTATION "TimeoutStopSec",
			name);
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (str_eq(harmless[i], property))
			return 0;
	for (size_t i = 0; i < n_allowed; i++)
		if (str_eq(allowed[i], name))
			return 0;
	return err_set(err, 0,
		       "annotation %.100s: it could give the container more than its limits: "
		       "the operator's file has to list it in annotations",
		       name);
}

/* The slice is the last but one part of the path. To be freed. */
static char *slice_of(const char *path)
{
	_cleanup_free_ char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');

	if (slash)
		*slash = '\0';
	slash = strrchr(parent, '/');
	return slash && is_slice(slash + 1) ? xstrdup(slash + 1) : xstrdup("-.slice");
}

static int describe(const struct systemd_scope *scope, struct unit_properties *properties,
		    struct err *err)
{
	static const char *const on[] = { "Delegate", "MemoryAccounting", "CPUAccounting",
					  "TasksAccounting", "IOAccounting" };
	_cleanup_free_ char *description = xasprintf("Container %s", scope->id);
	_cleanup_free_ char *slice = slice_of(scope->path);

	unit_add_string(properties, "Description", description);
	unit_add_string(properties, "Slice", slice);
	unit_add_string(properties, "CollectMode", "inactive-or-failed");
	unit_add_number(properties, "DefaultDependencies", 'b', 0);
	for (size_t i = 0; i < ARRAY_LEN(on); i++)
		unit_add_number(properties, on[i], 'b', 1);
	if (unit_add_limits(properties, scope->resources, err) < 0)
		return -1;
	for (size_t i = 0; i < scope->n_annotations; i++) {
		const struct oci_pair *pair = &scope->annotations[i];

		if (str_starts_with(pair->key, SYSTEMD_ANNOTATION) &&
		    unit_add_text(properties, pair->key + strlen(SYSTEMD_ANNOTATION), pair->value,
				  err) < 0)
			return -1;
	}
	return 0;
}

static pid_t make_holder(struct err *err)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		err_set(err, errno, "make a process");
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

int systemd_start(const struct systemd_scope *scope, pid_t *holder, struct err *err)
{
	_cleanup_(unit_properties_free) struct unit_properties properties = { 0 };
	_cleanup_(bus_close_pointer) struct bus *bus = NULL;
	struct err unheard;
	int r;

	*holder = -1;
	if (!err)
		err = &unheard;
	if (describe(scope, &properties, err) < 0 || !(bus = bus_open(err)))
		return -1;
	*holder = make_holder(err);
	if (*holder < 0)
		return -1;
	r = bus_start_scope(bus, scope->unit, &properties, *holder, err);
	if (r < 0 && err->code == EEXIST) {
		/* What is left of one that failed is in the way; one that runs is not forgotten. */
		bus_reset(bus, scope->unit);
		r = bus_start_scope(bus, scope->unit, &properties, *holder, err);
	}
	if (r == 0)
		return 0;
	kill(*holder, SIGKILL);
	proc_wait(*holder);
	*holder = -1;
	return -1;
}

int systemd_update(const char *unit, const struct oci_linux_resources *resources, struct err *err)
{
	_cleanup_(unit_properties_free) struct unit_properties properties = { 0 };
	_cleanup_(bus_close_pointer) struct bus *bus = NULL;

	if (unit_add_limits(&properties, resources, err) < 0)
		return -1;
	if (!properties.count)
		return 0;
	bus = bus_open(err);
	return bus ? bus_set(bus, unit, &properties, err) : -1;
}

int systemd_stop(const char *unit, struct err *err)
{
	struct err unheard;
	_cleanup_(bus_close_pointer) struct bus *bus = bus_open(err ? err : (err = &unheard));

	if (!bus)
		return -1;
	if (bus_stop(bus, unit, err) < 0 && err->code != ENOENT)
		return -1;
	bus_reset(bus, unit);
	return 0;
}
