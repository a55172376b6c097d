/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat ps: the processes of a container, by ps(1) or as a guest tells, or their pids as JSON. */
#include "cli/cli.h"

#include "base/proc.h"
#include "base/str.h"
#include "cli/ps_guest.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PIDS_A_WORD 1024 /* of a list for ps, which may have as many lists as it takes */

static const char *format = "table";

static const struct cli_option options[] = {
	{ "format", 'f', OPTION_STRING, &format, "table|json", "how to print them (table)" },
	{ 0 },
};

static void print_json(const pid_t *pids, size_t count)
{
	putchar('[');
	for (size_t i = 0; i < count; i++)
		printf("%s%d", i ? "," : "", (int)pids[i]);
	puts("]");
}

/* The column of ps's table that has the pid: counted in words. -1: there is none. */
static int pid_column(const char *header)
{
	for (int column = 0;; column++) {
		header += strspn(header, " \n");
		if (!*header)
			return -1;
		if (str_starts_with(header, "PID") && isspace((unsigned char)header[3]))
			return column;
		header += strcspn(header, " \n");
	}
}

static bool is_one_of(const char *line, int column, const pid_t *pids, size_t count)
{
	int pid;

	for (line += strspn(line, " "); column > 0; column--) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	if (sscanf(line, "%d", &pid) != 1)
		return false;
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static int print_table(FILE *table, const pid_t *pids, size_t count, struct err *err)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	int column;

	if (getline(&line, &room, table) < 0)
		return err_set(err, 0, "ps printed nothing");
	column = pid_column(line);
	if (column < 0)
		return err_set(err, 0,
			       "ps printed no column PID: choose options with which it does");
	fputs(line, stdout);
	while (getline(&line, &room, table) > 0)
		if (is_one_of(line, column, pids, count))
			fputs(line, stdout);
	return 0;
}

/*
 * The caller's options, and the container's processes by their pids: options such as -o choose no
 * process by themselves, and ps would take those of its own terminal. To be freed by
 * strings_free().
 */
static char **make_arguments(int argc, char **argv, const pid_t *pids, size_t count)
{
	char **args = xcalloc((size_t)argc + 4 + count / PIDS_A_WORD, sizeof(char *));
	size_t n = 0;

	args[n++] = xstrdup("ps");
	if (argc == 0)
		args[n++] = xstrdup("-ef");
	for (int i = 0; i < argc; i++)
		args[n++] = xstrdup(argv[i]);
	for (size_t done = 0; done < count && argc > 0; done += PIDS_A_WORD) {
		char text[16 * PIDS_A_WORD] = "-p";
		size_t used = 2;

		for (size_t i = done; i < count && i < done + PIDS_A_WORD; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
						 i > done ? "," : "", (int)pids[i]);
		args[n++] = xstrdup(text);
	}
	return args;
}

/* Runs ps(1) of the host. Returns its child process and output. */
static FILE *run_ps(char **args, pid_t *child, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe for ps"), NULL;
	*child = fork();
	if (*child < 0)
		return err_set(err, errno, "fork for ps"), NULL;
	if (*child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execvp("ps", args);
		dprintf(STDERR_FILENO, "moat: run ps: %m; install procps\n");
		_exit(127);
	}
	close(ends[1]);
	return fdopen(ends[0], "re");
}

/* The processes see themselves with other pids than the host does, if it sees them at all. */
static int print_described(struct instance *instance, int argc, char **argv, struct err *err)
{
	_cleanup_(moat_processes_free_pointer) struct moat_processes *processes =
		instance_describe(instance, err);

	return processes ? ps_guest(argc, argv, processes, err) : -1;
}

static int ps(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	_cleanup_(strings_free_pointer) char **args = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	size_t count;
	pid_t child;
	FILE *table;
	int r;

	instance = instance_load(runtime, argv[0], false, err);
	if (!instance || instance_processes(instance, &pids, &count, err) < 0)
		return -1;
	if (str_eq(format, "json"))
		return print_json(pids, count), 0;
	argc--;
	argv++;
	if (argc > 0 && str_eq(argv[0], "--")) { /* as people write it who know other runtimes */
		argc--;
		argv++;
	}
	if (instance_describes(instance))
		return print_described(instance, argc, argv, err);
	args = make_arguments(argc, argv, pids, count);
	table = run_ps(args, &child, err);
	if (!table)
		return -1;
	r = print_table(table, pids, count, err);
	fclose(table);
	proc_wait(child);
	return r;
}

const struct cli_command ps_command = {
	.name = "ps",
	.arguments = "ID [PS OPTION...]",
	.summary = "list the processes of a container",
	.details = "The table is that of ps(1), -ef if no options for it follow. A stopped "
		   "container has an empty one.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 256,
	.options_first = true,
	.run = ps,
};
