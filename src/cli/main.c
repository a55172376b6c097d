/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat: global options, the choice of the command, and how its end is reported. */
#include "cli/cli.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/commit.h"
#include "sandbox/self.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* The status that a shell, or an engine, expects with an error. */
static int exit_status(const struct cli_command *command, const struct err *err)
{
	switch (err->code) {
	case ERR_PROGRAM_NOT_FOUND:
		return 127;
	case ERR_PROGRAM_DENIED:
		return 126;
	default:
		return command && command->error_status ? command->error_status : 1;
	}
}

static int report(const struct cli_command *command, const struct err *err)
{
	log_error("%s", err->text);
	if (log_fd() >= 0) /* engines read the log, people what is on the terminal */
		dprintf(STDERR_FILENO, "moat: %s\n", err->text);
	return exit_status(command, err);
}

static int print_version(void)
{
	/* dockerd and containerd read these lines. */
	printf("moat version %s\ncommit: %s\nspec: %s\n", MOAT_VERSION, MOAT_COMMIT,
	       RUNTIME_OCI_VERSION);
	return 0;
}

static const struct cli_command *find_command(const char *name, struct err *err)
{
	for (size_t i = 0; commands[i]; i++)
		if (str_eq(commands[i]->name, name))
			return commands[i];
	err_set(err, 0, "unknown command '%.64s': moat --help lists the commands", name);
	return NULL;
}

/* moat help [COMMAND]: as --help, and like it whatever the operator's file or the machine is. */
static int help_of(int argc, char **argv, struct err *err)
{
	const struct cli_command *command;

	if (argc > 2)
		return err_set(err, 0, "help: expected one command, found more");
	if (argc < 2 || str_eq(argv[1], "help") || argv[1][0] == '-')
		return cli_help_all(), 0;
	command = find_command(argv[1], err);
	return command ? cli_help(command), 0 : -1;
}

static int open_log(struct err *err)
{
	bool json = str_eq(globals.log_format, "json");

	if (log_open(globals.log_path, json, globals.debug, err) < 0)
		return err_hint(err, "--log names it");
	return 0;
}

static int check_count(const struct cli_command *command, int argc, char **argv, struct err *err)
{
	const char *none = *command->arguments ? "" : "no arguments";

	if (argc < command->arguments_min)
		return err_set(err, 0, "%s: expected %s%s", command->name, none,
			       command->arguments);
	if (argc <= command->arguments_max)
		return 0;
	err_set(err, 0, "%s: '%.64s' is an argument too many: expected %s%s", command->name,
		argv[command->arguments_max], none, command->arguments);
	return command->no_more ? err_hint(err, "%s", command->no_more) : -1;
}

static int run_command_line(const struct cli_command *command, const char *program, int argc,
			    char **argv, struct err *err)
{
	_cleanup_(runtime_close) struct runtime runtime = { 0 };
	struct runtime_options options = {
		.root = globals.root,
		.program = program,
		.isolation = globals.isolation,
		.settings_path = globals.config_path,
		.cgroup_manager = globals.systemd_cgroup ? "systemd" : globals.cgroup_manager,
		.stateless = command->stateless,
	};
	bool help;
	int first = cli_parse(command->options, command->options_first, command->unknown, argc,
			      argv, &help, err);

	if (first < 0)
		return err_hint(err, "see moat %s --help", command->name);
	if (help)
		return cli_help(command), 0;
	argc -= first;
	argv += first;
	if (check_count(command, argc, argv, err) < 0)
		return err_hint(err, "see moat %s --help", command->name);
	if (runtime_open(&runtime, &options, err) < 0)
		return -1;
	return command->run(&runtime, argc, argv, err);
}

int main(int argc, char **argv)
{
	const struct cli_command *command;
	struct err err = { 0 };
	bool help;
	int first, r;

	if (fd_open_standard() < 0)
		return 1;	  /* there is nowhere to say it */
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like any other */
	first = cli_parse(global_options, true, NULL, argc, argv, &help, &err);
	if (first < 0) {
		err_hint(&err, "see moat --help");
		return report(NULL, &err);
	}
	if (help)
		return cli_help_all(), 0;
	if (globals.version)
		return print_version();
	if (open_log(&err) < 0)
		return report(NULL, &err);
	if (first == argc && argc > 1) { /* an option may have taken the command for its value */
		err_set(&err, 0, "no command is given: moat --help lists the commands");
		return report(NULL, &err);
	}
	if (first == argc) {
		cli_help_all();
		return 1;
	}
	if (str_eq(argv[first], "help"))
		return help_of(argc - first, argv + first, &err) < 0 ? report(NULL, &err) : 0;
	command = find_command(argv[first], &err);
	if (!command || (command->enters && self_protect(argv, &err) < 0))
		return report(command, &err);
	r = run_command_line(command, argv[0], argc - first, argv + first, &err);
	if (r >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_set(&err, errno, "write to standard output");
	return r < 0 ? report(command, &err) : r;
}
