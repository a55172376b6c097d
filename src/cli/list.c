/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat list: the containers below the state root. */
#include "cli/cli.h"

#include "base/str.h"
#include "oci/record.h"

#include <pwd.h>
#include <stdio.h>

static const char *format = "table";
static bool quiet;

static const struct cli_option options[] = {
	{ "format", 'f', OPTION_STRING, &format, "FORMAT", "table or json" },
	{ "quiet", 'q', OPTION_FLAG, &quiet, NULL, "ids only" },
	{ 0 },
};

static void owner_name(uint32_t uid, char *name, size_t room)
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(name, room, "%s", entry->pw_name);
	else
		snprintf(name, room, "#%u", uid);
}

static pid_t shown_pid(const struct instance *instance)
{
	return instance_status(instance) == STATUS_STOPPED ? 0 : instance->record->pid;
}

static void print_row(const struct instance *instance)
{
	const struct moat_record *record = instance->record;
	char owner[64];

	owner_name(record->owner, owner, sizeof(owner));
	printf("%-20s %-8d %-9s %-8s %-30s %-31s %s\n", instance->container.id,
	       (int)shown_pid(instance), status_name(instance_status(instance)), record->isolation,
	       record->bundle, record->created ? record->created : "-", owner);
}

static void print_json(const struct instance *instance, bool first)
{
	const struct moat_record *record = instance->record;
	char owner[64];
	struct moat_row row = {
		.oci_version = (char *)RUNTIME_OCI_VERSION,
		.id = (char *)instance->container.id,
		.pid = shown_pid(instance),
		.status = (char *)status_name(instance_status(instance)),
		.isolation = record->isolation,
		.bundle = record->bundle,
		.rootfs = record->rootfs,
		.created = record->created,
		.owner = owner,
		.annotations = record->annotations,
		.n_annotations = record->n_annotations,
	};
	_cleanup_free_ char *text = NULL;

	owner_name(record->owner, owner, sizeof(owner));
	text = moat_row_write(&row, NULL);
	printf("%s%s", first ? "" : ",", text);
}

static void print_one(const struct instance *instance, bool json, bool first)
{
	if (quiet)
		puts(instance->container.id);
	else if (json)
		print_json(instance, first);
	else
		print_row(instance);
}

static int list(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(strings_free_pointer) char **ids = NULL;
	bool json = str_eq(format, "json"), first = true;

	if (!json && !str_eq(format, "table"))
		return err_set(err, 0, "--format: expected table or json, found '%.64s'", format);
	ids = runtime_list(runtime, err);
	if (!ids)
		return -1;
	if (!quiet && !json)
		printf("%-20s %-8s %-9s %-8s %-30s %-31s %s\n", "ID", "PID", "STATUS", "LEVEL",
		       "BUNDLE", "CREATED", "OWNER");
	if (!quiet && json)
		putchar('[');
	for (char **id = ids; *id; id++) {
		_cleanup_(instance_free_pointer) struct instance *instance =
			instance_load(runtime, *id, false, err);

		if (!instance) /* deleted since the directory was read */
			continue;
		print_one(instance, json, first);
		first = false;
	}
	if (!quiet && json)
		puts("]");
	return 0;
}

const struct cli_command list_command = {
	.name = "list",
	.arguments = "",
	.summary = "list the containers",
	.options = options,
	.run = list,
};
