/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat state: the state of a container as JSON. */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>

static int state(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], false, err);
	_cleanup_free_ char *text = NULL, *indented = NULL;

	if (!instance)
		return -1;
	text = cli_row(instance);
	indented = json_indent(text);
	fputs(indented, stdout);
	return 0;
}

const struct cli_command state_command = {
	.name = "state",
	.arguments = "ID",
	.summary = "print the state of a container as JSON",
	.arguments_min = 1,
	.arguments_max = 1,
	.run = state,
};
