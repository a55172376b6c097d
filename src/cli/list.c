/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat list: the containers below the state root. */
#include "cli/cli.h"

#include "base/str.h"
#include "oci/record.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 7

static const char *format = "table";
static bool quiet;

static const struct cli_option options[] = {
	{ "format", 'f', OPTION_STRING, &format, "table|json", "how to print them (table)" },
	{ "quiet", 'q', OPTION_FLAG, &quiet, NULL, "ids only" },
	{ 0 },
};

/* By the file alone: other sources of names take shared libraries, which moat does without. */
static void owner_name(uint32_t uid, char *name, size_t room)
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *entry = NULL;

	while (file && (entry = fgetpwent(file)) && entry->pw_uid != uid)
		;
	if (entry)
		snprintf(name, room, "%s", entry->pw_name);
	else
		snprintf(name, room, "#%u", uid);
	if (file)
		fclose(file);
}

char *cli_row(const struct instance *instance)
{
	const struct moat_record *record = instance->record;
	enum status status = instance_status(instance);
	char owner[64];
	struct moat_row row = {
		.oci_version = (char *)RUNTIME_OCI_VERSION,
		.id = (char *)instance->container.id,
		.pid = status == STATUS_STOPPED ? 0 : record->pid,
		.status = (char *)status_name(status),
		.isolation = record->isolation,
		.bundle = record->bundle,
		.rootfs = record->rootfs,
		.created = record->created,
		.owner = owner,
		.annotations = record->annotations,
		.n_annotations = record->n_annotations,
	};

	owner_name(record->owner, owner, sizeof(owner));
	return moat_row_write(&row, NULL);
}

/* A table whose columns are as wide as what is in them. The first row is the header. */
struct table {
	char *(*rows)[COLUMNS];
	size_t count;
};

static void add_row(struct table *table, const struct instance *instance)
{
	const struct moat_record *record = instance->record;
	enum status status = instance_status(instance);
	char **row, owner[64];

	owner_name(record->owner, owner, sizeof(owner));
	table->rows = xrealloc(table->rows, table->count + 1, sizeof(*table->rows));
	row = table->rows[table->count++];
	row[0] = xstrdup(instance->container.id);
	row[1] = xasprintf("%d", status == STATUS_STOPPED ? 0 : (int)record->pid);
	row[2] = xstrdup(status_name(status));
	row[3] = xstrdup(record->bundle);
	row[4] = xstrdup(record->created ? record->created : "-");
	row[5] = xstrdup(owner);
	row[6] = xstrdup(record->isolation);
}

static void print_table(struct table *table)
{
	static const char *const header[COLUMNS] = { "ID",	"PID",	 "STATUS", "BUNDLE",
						     "CREATED", "OWNER", "LEVEL" };
	int widths[COLUMNS];

	for (size_t i = 0; i < COLUMNS; i++) {
		widths[i] = (int)strlen(header[i]);
		for (size_t j = 0; j < table->count; j++)
			if ((int)strlen(table->rows[j][i]) > widths[i])
				widths[i] = (int)strlen(table->rows[j][i]);
	}
	for (size_t i = 0; i < COLUMNS; i++)
		printf("%-*s%s", i + 1 < COLUMNS ? widths[i] + 2 : 0, header[i],
		       i + 1 < COLUMNS ? "" : "\n");
	for (size_t j = 0; j < table->count; j++)
		for (size_t i = 0; i < COLUMNS; i++) {
			printf("%-*s%s", i + 1 < COLUMNS ? widths[i] + 2 : 0, table->rows[j][i],
			       i + 1 < COLUMNS ? "" : "\n");
			free(table->rows[j][i]);
		}
	free(table->rows);
}

static void print_json(const struct instance *instance, bool first)
{
	_cleanup_free_ char *text = cli_row(instance);

	printf("%s%s", first ? "" : ",", text);
}

static int list(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(strings_free_pointer) char **ids = runtime_list(runtime, err);
	bool json = str_eq(format, "json") && !quiet, first = true;
	struct table table = { 0 };

	if (!ids)
		return -1;
	if (json)
		putchar('[');
	for (char **id = ids; *id; id++) {
		_cleanup_(instance_free_pointer) struct instance *instance =
			instance_load(runtime, *id, false, err);

		if (!instance) /* deleted since the directory was read */
			continue;
		if (quiet)
			puts(instance->container.id);
		else if (json)
			print_json(instance, first);
		else
			add_row(&table, instance);
		first = false;
	}
	if (json)
		puts("]");
	else if (!quiet)
		print_table(&table);
	return 0;
}

const struct cli_command list_command = {
	.name = "list",
	.arguments = "",
	.summary = "list the containers",
	.details = "Those below --root, at every level and in every state.",
	.options = options,
	.run = list,
};
