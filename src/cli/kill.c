/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat kill: send a signal to a container. */
#include "cli/cli.h"

#include "base/proc.h"
#include "base/str.h"

static bool all;

static const struct cli_option options[] = {
	{ "all", 'a', OPTION_FLAG, &all, NULL, "signal every process in the container" },
	{ 0 },
};

/* Signal 0 is none: it only finds out whether there is something to signal, as with kill(2). */
static int parse(const char *text, struct err *err)
{
	return str_eq(text, "0") ? 0 : signal_parse(text, err);
}

static int kill_container(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	int signal = parse(argc > 1 ? argv[1] : "TERM", err);

	if (signal < 0) {
		if (argc > 1 && parse(argv[0], NULL) >= 0)
			err_hint(err, "the id comes first: moat kill %.64s %.64s", argv[1],
				 argv[0]);
		return -1;
	}
	instance = instance_load(runtime, argv[0], false, err);
	return instance ? instance_kill(instance, signal, all, err) : -1;
}

const struct cli_command kill_command = {
	.name = "kill",
	.arguments = "ID [SIGNAL]",
	.summary = "send a signal, TERM if none is named, to a container's first process",
	.details = "SIGNAL is a name such as TERM, SIGTERM or RTMIN+3, or a number;\n0 only looks "
		   "whether the container runs.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 2,
	.unknown = "the signal follows the id: moat kill ID KILL",
	.run = kill_container,
};
