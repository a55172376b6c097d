/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat create: make a container and leave it waiting for start. */
#include "cli/cli.h"

#include "cli/console.h"

static const char *bundle = ".", *pid_file, *console_path;
static struct create_options create_options = { .console_socket = -1 };
static bool no_pivot, no_new_keyring;

static const struct cli_option options[] = {
	{ "bundle", 'b', OPTION_STRING, &bundle, "DIR",
	  "the directory with config.json (the current one)" },
	{ "console-socket", 0, OPTION_STRING, &console_path, "PATH",
	  "Unix socket that receives the terminal" },
	{ "pid-file", 0, OPTION_STRING, &pid_file, "FILE", "write the container's pid to FILE" },
	{ "no-pivot", 0, OPTION_FLAG, &no_pivot, NULL,
	  "enter the root file system without pivot_root (on a ramdisk)" },
	{ "no-new-keyring", 0, OPTION_FLAG, &no_new_keyring, NULL,
	  "leave the session keyring as it is" },
	{ "preserve-fds", 0, OPTION_NUMBER, &create_options.preserve_fds, "N",
	  "pass N more descriptors, from 3 on" },
	{ 0 },
};

static int create(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;

	create_options.no_pivot = no_pivot;
	create_options.no_new_keyring = no_new_keyring;
	create_options.debug = globals.debug;
	if (console_path && console_connect(console_path, &create_options.console_socket, err) < 0)
		return -1;
	instance = instance_create(runtime, argv[0], bundle, pid_file, &create_options, err);
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
	.enters = true,
	.run = create,
};
