/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line: a command is a table of options and a function. The tables are also what
 * --help, the man pages and the shell completion are made from.
 */
#pragma once

#include "base/err.h"
#include "runtime/runtime.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,   /* bool * */
	OPTION_STRING, /* const char ** */
	OPTION_NUMBER, /* int *, of descriptors: zero or more */
	OPTION_LIST,   /* struct cli_list *: may be given more than once */
};

struct cli_list {
	const char **values;
	size_t count;
};

/* One option. A table ends with an entry without a name. */
struct cli_option {
	const char *name; /* without the dashes */
	char short_name;  /* 0: none */
	enum option_kind kind;
	void *target; /* see enum option_kind */
	/*
	 * What --help calls the value; NULL for flags. Words with | between them are the values
	 * that are accepted. The shell completes FILE, PATH, DIR and SIGNAL, and ID as an argument.
	 */
	const char *argument;
	const char *help; /* a phrase without a full stop */
};

struct cli_command {
	const char *name;
	const char *arguments; /* as --help shows them: "ID [SIGNAL]" */
	const char *summary;   /* a phrase without a full stop */
	const char *details;   /* sentences for --help; NULL: none */
	const struct cli_option *options;
	int arguments_min, arguments_max;
	const char *no_more; /* to who gives more of them than that; NULL: nothing */
	const char *unknown; /* to who gives an option that there is not; NULL: nothing */
	bool stateless;	     /* works where there is nowhere to keep containers' state */
	bool enters; /* a process of moat enters a container: its binary has to be protected */
	bool options_first; /* options end at the first argument (a command line follows) */
	int error_status;   /* of an error that has no status of its own; 0: 1 */
	/*
	 * What the command does. Returns the exit status of moat; -1 with err set: main() reports
	 * it and exits with the status that belongs to the code.
	 */
	int (*run)(struct runtime *runtime, int argc, char **argv, struct err *err);
};

/* The global options that commands look at. */
struct cli_globals {
	bool debug, version;
	const char *root;
	const char *log_path;
	const char *log_format;
	const char *isolation;
	const char *config_path;
	const char *cgroup_manager;
	const char *rootless;
	bool systemd_cgroup;
};

extern struct cli_globals globals;
extern const struct cli_command *const commands[]; /* NULL at the end */
extern const struct cli_option global_options[];

/*
 * cli_parse() - parse the options of a table from argv[1] on.
 * @options_first: stop at the first argument that is no option.
 * @unknown: a hint for who gives an option that there is not; NULL: none.
 * @help: set where -h or --help was among them.
 *
 * Returns the index of the first argument, options having been moved before the arguments; -1 with
 * err set where an option is unknown, or its value missing or wrong.
 */
int cli_parse(const struct cli_option *options, bool options_first, const char *unknown, int argc,
	      char **argv, bool *help, struct err *err);

void cli_help(const struct cli_command *command);
void cli_help_all(void);

/* The table that `list` and `state` print from: a container as JSON. To be freed. */
char *cli_row(const struct instance *instance);

extern const struct cli_command checkpoint_command, create_command, delete_command, doctor_command,
	events_command, exec_command, features_command, kernel_command, kill_command, list_command,
	pause_command, ps_command, restore_command, resume_command, run_command, spec_command,
	start_command, state_command, update_command;
