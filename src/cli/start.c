/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat start: run the program of a container that was created. */
#include "cli/cli.h"

static int start(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], true, err);

	return instance ? instance_start(instance, err) : -1;
}

const struct cli_command start_command = {
	.name = "start",
	.arguments = "ID",
	.summary = "run the program of a created container",
	.arguments_min = 1,
	.arguments_max = 1,
	.run = start,
};
