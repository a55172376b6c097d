/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line as tables: global options and commands. A command is added by its line here. */
#include "cli/cli.h"

struct cli_globals globals = { .log_format = "text" };

const struct cli_option global_options[] = {
	{ "root", 0, OPTION_STRING, &globals.root, "DIR",
	  "where containers' state is kept (/run/moat; else $XDG_RUNTIME_DIR/moat)" },
	{ "isolation", 0, OPTION_STRING, &globals.isolation, "vm|sandbox|plain",
	  "what separates containers from the host (as the program's name says after moat-, else "
	  "\"level\" of the operator's file, else vm)" },
	{ "log", 0, OPTION_STRING, &globals.log_path, "FILE", "append log lines to FILE" },
	{ "log-format", 0, OPTION_STRING, &globals.log_format, "text|json",
	  "form of log lines (text)" },
	{ "debug", 0, OPTION_FLAG, &globals.debug, NULL, "log more; a guest's console too" },
	{ "config", 0, OPTION_STRING, &globals.config_path, "FILE",
	  "the operator's file (/etc/moat/moat.json)" },
	{ "systemd-cgroup", 0, OPTION_FLAG, &globals.systemd_cgroup, NULL,
	  "as --cgroup-manager systemd" },
	{ "cgroup-manager", 0, OPTION_STRING, &globals.cgroup_manager, "cgroupfs|systemd|disabled",
	  "who makes cgroups (cgroupfs)" },
	{ "rootless", 0, OPTION_STRING, &globals.rootless, "true|false|auto",
	  "accepted for engines; moat looks for itself whether it has root's powers" },
	{ "version", 'v', OPTION_FLAG, &globals.version, NULL, "show the version" },
	{ 0 },
};

const struct cli_command *const commands[] = {
	&run_command,	 &create_command,     &start_command,	&exec_command,	 &state_command,
	&kill_command,	 &pause_command,      &resume_command,	&delete_command, &list_command,
	&spec_command,	 &features_command,   &doctor_command,	&ps_command,	 &update_command,
	&events_command, &checkpoint_command, &restore_command, &kernel_command, NULL,
};
