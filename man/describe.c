/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints the tables of the command line as JSON, while moat is built: the manual and the shell
 * completion are made from it, so that they name the options that moat has.
 */
#include "base/json.h"
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void put_pair(struct json_writer *writer, const char *name, const char *value)
{
	json_put_string(writer, name);
	json_put_string(writer, value);
}

static void put_options(struct json_writer *writer, const struct cli_option *options)
{
	json_begin_array(writer);
	for (; options && options->name; options++) {
		char short_name[2] = { options->short_name };

		json_begin_object(writer);
		put_pair(writer, "name", options->name);
		put_pair(writer, "short", short_name);
		put_pair(writer, "argument", options->argument ? options->argument : "");
		put_pair(writer, "help", options->help);
		json_put_string(writer, "repeats");
		json_put_bool(writer, options->kind == OPTION_LIST);
		json_end_object(writer);
	}
	json_end_array(writer);
}

static void put_command(struct json_writer *writer, const struct cli_command *command)
{
	json_begin_object(writer);
	put_pair(writer, "name", command->name);
	put_pair(writer, "arguments", command->arguments);
	put_pair(writer, "summary", command->summary);
	put_pair(writer, "details", command->details ? command->details : "");
	json_put_string(writer, "options_first");
	json_put_bool(writer, command->options_first);
	json_put_string(writer, "options");
	put_options(writer, command->options);
	json_end_object(writer);
}

int main(void)
{
	struct json_writer *writer = json_writer_new("  ");
	_cleanup_free_ char *text = NULL;

	json_begin_object(writer);
	put_pair(writer, "version", MOAT_VERSION);
	json_put_string(writer, "options");
	put_options(writer, global_options);
	json_put_string(writer, "commands");
	json_begin_array(writer);
	for (size_t i = 0; commands[i]; i++)
		put_command(writer, commands[i]);
	json_end_array(writer);
	json_put_string(writer, "signals");
	json_begin_array(writer);
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i))
			json_put_string(writer, sigabbrev_np(i));
	json_end_array(writer);
	json_end_object(writer);
	text = json_writer_finish(writer, NULL);
	fputs(text, stdout);
	return 0;
}
