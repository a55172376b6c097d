/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options: tables to getopt_long(3) and to --help. */
#include "cli/cli.h"

#include "base/mem.h"
#include "base/str.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX 64
#define HELP_COLUMN 35
#define HELP_WIDTH  96
#define NUMBER_MAX  (1 << 20) /* of descriptors, as all numbers are: more than a process has */
#define LONG_ONLY   0x100     /* getopt's value of option i is LONG_ONLY + i */

static const struct option help_option = { "help", no_argument, NULL, 'h' };

/* --flag, or --flag=true and --flag=false as programs in Go write it. */
static int flag_set(const struct cli_option *option, const char *value, struct err *err)
{
	bool off = value && (str_eq(value, "false") || str_eq(value, "0"));

	if (value && !off && !str_eq(value, "true") && !str_eq(value, "1"))
		return err_set(err, 0, "--%s: expected true or false, or no value, found '%.64s'",
			       option->name, value);
	*(bool *)option->target = !off;
	return 0;
}

/* Checks the value against the words of "one|another". */
static int string_set(const struct cli_option *option, const char *value, struct err *err)
{
	size_t length = strlen(value);
	const char *word = option->argument;

	while (strchr(option->argument, '|')) {
		size_t n = strcspn(word, "|");

		if (n == length && memcmp(word, value, n) == 0)
			break;
		if (!word[n])
			return err_set(err, 0, "--%s: expected %s, found '%.64s'", option->name,
				       option->argument, value);
		word += n + 1;
	}
	*(const char **)option->target = value;
	return 0;
}

static int option_set(const struct cli_option *option, const char *value, struct err *err)
{
	struct cli_list *list;
	uint64_t number;

	switch (option->kind) {
	case OPTION_FLAG:
		return flag_set(option, value, err);
	case OPTION_STRING:
		return string_set(option, value, err);
	case OPTION_NUMBER:
		if (str_to_u64(value, NUMBER_MAX, &number) < 0)
			return err_set(err, 0, "--%s: expected a number up to %d, found '%.64s'",
				       option->name, NUMBER_MAX, value);
		*(int *)option->target = (int)number;
		break;
	case OPTION_LIST:
		list = option->target;
		list->values = xrealloc(list->values, list->count + 1, sizeof(char *));
		list->values[list->count++] = value;
		break;
	}
	return 0;
}

static bool is_global(const char *word)
{
	size_t length = strcspn(word, "=");

	for (const struct cli_option *option = global_options; option->name; option++)
		if (str_starts_with(word, "--") && strlen(option->name) == length - 2 &&
		    strncmp(option->name, word + 2, length - 2) == 0)
			return true;
	return false;
}

/* What getopt_long() refused, as its "?" and ":" tell it. */
static int option_refused(int result, const char *hint, char **argv, struct err *err)
{
	const char *word = argv[optind - 1];

	if (result == ':')
		return err_set(err, 0, "option %s needs a value", word);
	if (optopt >= LONG_ONLY || (optopt && word[1] == '-'))
		return err_set(err, 0, "option %.64s takes no value", word);
	if (optopt)
		err_set(err, 0, "unknown option -%c", optopt);
	else
		err_set(err, 0, "unknown option %.64s", word);
	if (hint)
		err_hint(err, "%s", hint);
	if (!optopt && is_global(word)) /* and not one of this table */
		err_hint(err, "it is a global option, which comes before the command");
	return -1;
}

/*
 * Go's programs take long options with one dash, too, and containerd writes some so. The next word
 * that getopt_long() will look at gets its second dash here.
 */
static void complete_dashes(const struct option *longs, bool options_first, int argc, char **argv)
{
	int i = optind ? optind : 1;

	while (!options_first && i < argc && (argv[i][0] != '-' || !argv[i][1]))
		i++;
	if (i >= argc || argv[i][0] != '-' || argv[i][1] == '-' || !argv[i][1] || !argv[i][2])
		return;
	for (; longs->name; longs++) {
		size_t n = strlen(longs->name);

		if (strncmp(argv[i] + 1, longs->name, n) == 0 &&
		    (!argv[i][1 + n] || argv[i][1 + n] == '='))
			argv[i] = xasprintf("-%s", argv[i]); /* lives as long as the command */
	}
}

/* The next option, as getopt_long() tells it; -1: there is none. */
static int next_option(const char *shorts, const struct option *longs, bool options_first, int argc,
		       char **argv)
{
	complete_dashes(longs, options_first, argc, argv);
	return getopt_long(argc, argv, shorts, longs, NULL);
}

int cli_parse(const struct cli_option *options, bool options_first, const char *unknown, int argc,
	      char **argv, bool *help, struct err *err)
{
	struct option longs[OPTIONS_MAX + 2] = { help_option };
	char shorts[2 * OPTIONS_MAX + 8] = "";
	size_t used = 0;
	int result;

	used += (size_t)snprintf(shorts, sizeof(shorts), "%s:h", options_first ? "+" : "");
	for (size_t i = 0; options && options[i].name && i < OPTIONS_MAX; i++) {
		bool value = options[i].kind != OPTION_FLAG;

		longs[i + 1] = (struct option){ options[i].name,
						value ? required_argument : optional_argument, NULL,
						LONG_ONLY + (int)i };
		if (options[i].short_name)
			used += (size_t)snprintf(shorts + used, sizeof(shorts) - used, "%c%s",
						 options[i].short_name, value ? ":" : "");
	}
	optind = 0; /* glibc: start anew, also with another optstring */
	opterr = 0;
	*help = false;
	while ((result = next_option(shorts, longs, options_first, argc, argv)) != -1) {
		const struct cli_option *option = NULL;

		if (result == '?' || result == ':')
			return option_refused(result, unknown, argv, err);
		if (result == 'h') {
			*help = true;
			continue;
		}
		if (result >= LONG_ONLY)
			option = &options[result - LONG_ONLY];
		for (size_t i = 0; !option; i++)
			if (options[i].short_name == result)
				option = &options[i];
		if (option_set(option, optarg, err) < 0)
			return -1;
	}
	return optind;
}

/* Prints words from a column on; lines that follow are indented to it. */
static void put_words(const char *text, int column)
{
	int used = column;

	for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
		int length = (int)strcspn(text, " \n");

		if (used > column && used + 1 + length > HELP_WIDTH) {
			printf("\n%*s", column, "");
			used = column;
		}
		used += printf("%s%.*s", used > column ? " " : "", length, text);
		text += length;
	}
	putchar('\n');
}

static void print_option(const char *left, const char *help)
{
	int used = printf("  %s", left);

	if (used + 1 < HELP_COLUMN)
		printf("%*s", HELP_COLUMN - used, "");
	else
		printf("\n%*s", HELP_COLUMN, "");
	put_words(help, HELP_COLUMN);
}

static void help_options(const struct cli_option *options)
{
	for (; options && options->name; options++) {
		char left[80], name[8] = "    ";

		if (options->short_name)
			snprintf(name, sizeof(name), "-%c, ", options->short_name);
		snprintf(left, sizeof(left), "%s--%s%s%s", name, options->name,
			 options->argument ? " " : "", options->argument ? options->argument : "");
		print_option(left, options->help);
	}
	print_option("-h, --help", "show this help");
}

void cli_help(const struct cli_command *command)
{
	printf("Usage: moat [GLOBAL OPTIONS] %s [OPTIONS]%s%s\n\n%c%s.\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->summary[0] - 'a' + 'A',
	       command->summary + 1);
	if (command->details) {
		putchar('\n');
		put_words(command->details, 0);
	}
	printf("\nOptions:\n");
	help_options(command->options);
	printf("\nGlobal options: see moat --help. The manual: man moat-%s\n", command->name);
}

void cli_help_all(void)
{
	printf("Usage: moat [GLOBAL OPTIONS] COMMAND [OPTIONS] [ARGUMENTS]\n\n"
	       "Runs OCI containers, each in a KVM virtual machine of its own or in namespaces.\n\n"
	       "Commands:\n");
	for (size_t i = 0; commands[i]; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	printf("  %-10s show this, or what a command does and its options\n", "help");
	printf("\nGlobal options:\n");
	help_options(global_options);
	printf("\nmoat help COMMAND, or moat COMMAND --help, tells more of a command, and man moat "
	       "of all "
	       "this.\n");
}
