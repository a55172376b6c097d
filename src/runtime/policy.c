/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which isolation level a container gets: the operator's choice, which a bundle may raise. */
#include "runtime/private.h"

#include "base/str.h"
#include "cgroup/systemd.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "sandbox/annotations.h"

#include <sys/capability.h>

static const char *const names[] = {
	[ISOLATION_PLAIN] = "plain",
	[ISOLATION_SANDBOX] = "sandbox",
	[ISOLATION_VM] = "vm",
};

const char *isolation_name(enum isolation isolation)
{
	return names[isolation];
}

int isolation_parse(const char *where, const char *name, enum isolation *isolation, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(names[i], name)) {
			*isolation = (enum isolation)i;
			return 0;
		}
	return err_set(err, 0, "%s: expected vm, sandbox or plain, found '%.64s'", where, name);
}

/* Annotations that the operator can let do more than tighten. */
static const char isolation_key[] = "run.moat.isolation";

static bool may_be_listed(const char *annotation)
{
	return str_eq(annotation, isolation_key) || crun_annotation_is_known(annotation) ||
	       (str_starts_with(annotation, SYSTEMD_ANNOTATION) &&
		systemd_annotation_has_name(annotation));
}

int annotations_check(const struct moat_settings *settings, const char *path, struct err *err)
{
	for (size_t i = 0; i < settings->n_annotations; i++)
		if (!may_be_listed(settings->annotations[i]))
			return err_set(err, 0,
				       "%s: annotations: expected %s, " SYSTEMD_ANNOTATION
				       "NAME or one of crun's (man moat-annotations), found "
				       "'%.64s'",
				       path, isolation_key, settings->annotations[i]);
	return 0;
}

/* Behind a set of glob(7), whose [ is before `at`; NULL where it has no end. */
static const char *behind_set(const char *at)
{
	at += *at == '!' || *at == '^';
	at += *at == ']'; /* one of the set, as it is the first */
	for (; *at != ']'; at++) {
		const char *end = at[0] == '[' && at[1] == ':' ? strstr(at, ":]") : NULL;

		if (end)
			at = end + 1;
		else if (at[0] == '\\' && at[1])
			at++;
		if (!*at || *at == '/')
			return NULL;
	}
	return at + 1;
}

/* Where a pattern is unfinished, so that it matches nothing whatever there is; or NULL. */
static const char *unfinished(const char *pattern)
{
	const char *at = pattern, *behind;

	while (*at) {
		if (*at == '[')
			behind = behind_set(at + 1);
		else if (*at == '\\')
			behind = at[1] ? at + 2 : NULL;
		else
			behind = at + 1;
		if (!behind)
			return at;
		at = behind;
	}
	return NULL;
}

/* A pattern that is relative would mean another device in each directory. */
int block_devices_check(const struct moat_settings *settings, const char *path, struct err *err)
{
	for (size_t i = 0; i < settings->n_block_devices; i++) {
		const char *pattern = settings->block_devices[i], *at = unfinished(pattern);

		if (pattern[0] != '/')
			return err_set(err, 0,
				       "%s: blockDevices[%zu]: expected an absolute path, found "
				       "\"%.64s\"",
				       path, i, pattern);
		if (at && *at == '[')
			return err_set(err, 0,
				       "%s: blockDevices[%zu]: the [ at character %zu of "
				       "\"%.64s\" has no ]; write \\[ for the character itself",
				       path, i, (size_t)(at - pattern) + 1, pattern);
		if (at)
			return err_set(err, 0,
				       "%s: blockDevices[%zu]: \"%.64s\" ends in a backslash", path,
				       i, pattern);
	}
	return 0;
}

/* One that is misspelt would be missing where a container asks for it. */
int sandbox_capabilities_check(const struct moat_settings *settings, const char *path,
			       struct err *err)
{
	cap_value_t value;

	for (size_t i = 0; i < settings->sandbox->n_capabilities; i++)
		if (cap_from_name(settings->sandbox->capabilities[i], &value) < 0)
			return err_set(err, 0,
				       "%s: sandbox.capabilities[%zu]: unknown capability "
				       "\"%.64s\", expected one such as CAP_NET_RAW",
				       path, i, settings->sandbox->capabilities[i]);
	return 0;
}

int unit_annotations_check(const struct runtime *runtime, const struct oci_config *config,
			   struct err *err)
{
	const struct moat_settings *settings = runtime->settings;

	for (size_t i = 0; runtime->systemd && i < config->n_annotations; i++)
		if (str_starts_with(config->annotations[i].key, SYSTEMD_ANNOTATION) &&
		    systemd_annotation_check(config->annotations[i].key, settings->annotations,
					     settings->n_annotations, err) < 0)
			return -1;
	return 0;
}

static bool may_lower(const struct moat_settings *settings)
{
	for (size_t i = 0; i < settings->n_annotations; i++)
		if (str_eq(settings->annotations[i], isolation_key))
			return true;
	return false;
}

int isolation_choose(const struct runtime *runtime, const struct oci_config *config,
		     enum isolation *isolation, struct err *err)
{
	enum isolation asked;

	*isolation = runtime->isolation;
	for (size_t i = 0; i < config->n_annotations; i++) {
		if (!str_eq(config->annotations[i].key, isolation_key))
			continue;
		if (isolation_parse("annotation run.moat.isolation", config->annotations[i].value,
				    &asked, err) < 0)
			return -1;
		if (asked < *isolation && !may_lower(runtime->settings))
			return err_set(err, 0,
				       "annotation %s asks for %s, which is weaker than %s: an "
				       "annotation can only raise the level, unless the operator's "
				       "file lists it in annotations",
				       isolation_key, isolation_name(asked),
				       isolation_name(*isolation));
		*isolation = asked;
	}
	return 0;
}
