/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat run: create, start, wait and delete. */
#include "cli/creation.h"
#include "cli/stay.h"

static const struct cli_option options[] = {
	CREATION_OPTIONS,
	STAY_OPTIONS,
	{ 0 },
};

static int run(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	return stay_run(runtime, argv[0], creation_create, instance_start, err);
}

const struct cli_command run_command = {
	.name = "run",
	.arguments = "ID",
	.summary = "create and start a container, wait for its end and delete it",
	.details = "The exit status is the program's; 128 and the signal's number where a signal "
		   "ended "
		   "it;\n127 where the program is not there, 126 where it cannot be executed.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.no_more = "what a container runs is process.args of its config.json",
	.enters = true,
	.run = run,
};
