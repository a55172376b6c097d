/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat delete: release what a container holds and forget it. */
#include "cli/cli.h"

static bool force;

static const struct cli_option options[] = {
	{ "force", 'f', OPTION_FLAG, &force, NULL,
	  "kill it first if it runs; a container that is not there is no error" },
	{ 0 },
};

static int delete_container(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], true, err);

	if (!instance)
		return force && err->code == ERR_NO_CONTAINER ? 0 : -1;
	return instance_delete(instance, force, err);
}

const struct cli_command delete_command = {
	.name = "delete",
	.arguments = "ID",
	.summary = "release all that a container holds and forget it",
	.details = "Of a container whose state.json is damaged or gone, --force ends what is in "
		   "its cgroup.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.run = delete_container,
};
