/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat create: make a container and leave it waiting for start. */
#include "cli/creation.h"

static const struct cli_option options[] = {
	CREATION_OPTIONS,
	{ 0 },
};

static int create(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;

	if (creation_prepare(err) < 0)
		return -1;
	instance = creation_create(runtime, argv[0], err);
	return instance ? 0 : -1;
}

const struct cli_command create_command = {
	.name = "create",
	.arguments = "ID",
	.summary = "create a container from a bundle, up to its program",
	.details = "The container waits for moat start ID. Its standard streams are those of this\n"
		   "command, or a terminal that goes to the console socket.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.no_more = "what a container runs is process.args of its config.json",
	.enters = true,
	.run = create,
};
