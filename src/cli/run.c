/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat run: create, start, wait and delete, with signals passed on. */
#include "cli/creation.h"

#include "base/log.h"
#include "cli/foreground.h"
#include "oci/config.h"

#include <sys/prctl.h>

static bool detach, keep, no_subreaper;

static const struct cli_option options[] = {
	CREATION_OPTIONS,
	{ "detach", 'd', OPTION_FLAG, &detach, NULL, "leave it running and return" },
	{ "keep", 0, OPTION_FLAG, &keep, NULL, "do not delete the container when it has ended" },
	{ "no-subreaper", 0, OPTION_FLAG, &no_subreaper, NULL,
	  "leave reaping the container's orphans to others" },
	{ 0 },
};

static int pass_on(struct foreground *foreground, int signal, struct err *err)
{
	return instance_kill(foreground->data, signal, false, err);
}

static int start_and_wait(struct foreground *foreground, struct instance *instance, struct err *err)
{
	if (foreground_attach(foreground, err) < 0 || instance_start(instance, err) < 0)
		return -1;
	return foreground_wait(foreground, err);
}

static int run_foreground(struct foreground *foreground, struct instance *instance, struct err *err)
{
	struct err cleanup = { 0 };
	int status = start_and_wait(foreground, instance, err);

	foreground_close(foreground);
	if ((!keep || status < 0) && instance_delete(instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return status;
}

static int run_detached(struct instance *instance, struct err *err)
{
	struct err cleanup = { 0 };

	if (instance_start(instance, err) == 0)
		return 0;
	if (instance_delete(instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return -1;
}

static int prepare(struct foreground *foreground, struct err *err)
{
	creation.options.foreground = !detach;
	if (creation_prepare(err) < 0)
		return -1;
	if (detach || creation.console_path)
		return 0;
	return console_pair(&foreground->console, &creation.options.console_socket, err);
}

static int run(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	struct foreground foreground = { .kill = pass_on };

	if (!detach && !no_subreaper)
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if ((!detach && foreground_prepare(&foreground, err) < 0) || prepare(&foreground, err) < 0)
		return -1;
	instance = creation_create(runtime, argv[0], err);
	if (!instance)
		return -1;
	if (detach)
		return run_detached(instance, err);
	foreground.data = instance;
	foreground.pid = instance->container.pid;
	foreground.terminal = instance->config->process->terminal && !creation.console_path;
	return run_foreground(&foreground, instance, err);
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
	.enters = true,
	.run = run,
};
