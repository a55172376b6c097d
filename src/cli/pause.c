/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat pause and moat resume: stop all processes of a container, and let them go on. */
#include "cli/cli.h"

static int pause_container(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], true, err);

	return instance ? instance_pause(instance, err) : -1;
}

static int resume_container(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], true, err);

	return instance ? instance_resume(instance, err) : -1;
}

const struct cli_command pause_command = {
	.name = "pause",
	.arguments = "ID",
	.summary = "stop all processes of a container",
	.arguments_min = 1,
	.arguments_max = 1,
	.run = pause_container,
};

const struct cli_command resume_command = {
	.name = "resume",
	.arguments = "ID",
	.summary = "let the processes of a paused container go on",
	.arguments_min = 1,
	.arguments_max = 1,
	.run = resume_container,
};
