/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's processes as ps(1) would print them, with the columns of -ef and those of -o that can
 * be known. Commands are the workload's words: nothing but printable ASCII reaches the terminal.
 */
#include "cli/ps_guest.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <sys/sysmacros.h>
#include <time.h>

#define COLUMNS_MAX   32
#define CELL_MAX      16384 /* a command of 4 KiB, each byte as \xNN */
#define COMM_MAX      15    /* what the kernel keeps of a program's name */
#define NS_PER_S      1000000000ull
#define PTS_MAJOR     136u
#define PTS_MAJOR_END 144u

typedef void (*cell_fn)(const struct moat_process *process, char *cell, size_t room);

struct column {
	const char *names[4];
	const char *header;
	int width; /* negative: to the left */
	cell_fn print;
};

struct columns {
	const struct column *column[COLUMNS_MAX];
	size_t count;
};

static void print_pid(const struct moat_process *process, char *cell, size_t room)
{
	snprintf(cell, room, "%u", process->pid);
}

static void print_parent(const struct moat_process *process, char *cell, size_t room)
{
	snprintf(cell, room, "%u", process->parent);
}

/* Names of the image's users are not known here. */
static void print_user(const struct moat_process *process, char *cell, size_t room)
{
	if (process->uid)
		snprintf(cell, room, "%u", process->uid);
	else
		snprintf(cell, room, "root");
}

static void print_uid(const struct moat_process *process, char *cell, size_t room)
{
	snprintf(cell, room, "%u", process->uid);
}

/* Percent of its time that it has spent on a processor. */
static void print_share(const struct moat_process *process, char *cell, size_t room)
{
	uint64_t now = (uint64_t)time(NULL) * NS_PER_S;
	uint64_t age = now > process->start ? (now - process->start) / 100 : 0;
	uint64_t share = age ? process->cpu / age : 0;

	snprintf(cell, room, "%u", share > 99 ? 99 : (unsigned int)share);
}

static void print_start(const struct moat_process *process, char *cell, size_t room)
{
	time_t start = (time_t)(process->start / NS_PER_S), now = time(NULL);
	struct tm then, today;

	if (!localtime_r(&start, &then) || !localtime_r(&now, &today))
		snprintf(cell, room, "?");
	else if (then.tm_year == today.tm_year && then.tm_yday == today.tm_yday)
		strftime(cell, room, "%H:%M", &then);
	else
		strftime(cell, room, "%b%d", &then);
}

static void print_terminal(const struct moat_process *process, char *cell, size_t room)
{
	unsigned int major_number = (process->terminal >> 8) & 0xfff;
	unsigned int minor_number =
		(process->terminal & 0xff) | ((process->terminal >> 12) & ~0xffu);

	if (major_number >= PTS_MAJOR && major_number < PTS_MAJOR_END)
		snprintf(cell, room, "pts/%u", minor_number + (major_number - PTS_MAJOR) * 256);
	else
		snprintf(cell, room, "?");
}

static void print_time(const struct moat_process *process, char *cell, size_t room)
{
	unsigned long long seconds = process->cpu / NS_PER_S;

	snprintf(cell, room, "%02llu:%02llu:%02llu", seconds / 3600, seconds / 60 % 60,
		 seconds % 60);
}

static void print_state(const struct moat_process *process, char *cell, size_t room)
{
	str_escape(process->state, strnlen(process->state, 1), cell, room);
}

static void print_command(const struct moat_process *process, char *cell, size_t room)
{
	str_escape(process->command, strlen(process->command), cell, room);
}

/* The program's name: the last part of the first word, "sh" of a login shell's "-sh". */
static void print_comm(const struct moat_process *process, char *cell, size_t room)
{
	const char *word = process->command + strspn(process->command, "[-");
	size_t length = strcspn(word, " ]");

	for (size_t i = 0; i < length; i++)
		if (word[i] == '/' && i + 1 < length) {
			word += i + 1;
			length -= i + 1;
			i = (size_t)-1;
		}
	str_escape(word, length < COMM_MAX ? length : COMM_MAX, cell, room);
}

static const struct column all_columns[] = {
	{ { "pid", "tgid" }, "PID", 7, print_pid },
	{ { "ppid" }, "PPID", 7, print_parent },
	{ { "user", "euser", "uname" }, "USER", -8, print_user },
	{ { "uid", "euid" }, "UID", 5, print_uid },
	{ { "c", "pcpu", "%cpu" }, "C", 2, print_share },
	{ { "stime", "start", "start_time" }, "STIME", 5, print_start },
	{ { "tty", "tt", "tname" }, "TTY", -8, print_terminal },
	{ { "time", "cputime" }, "TIME", 8, print_time },
	{ { "s", "stat", "state" }, "S", -1, print_state },
	{ { "comm", "ucmd", "ucomm" }, "COMMAND", -15, print_comm },
	{ { "args", "cmd", "command" }, "COMMAND", -27, print_command },
};

/* Those of ps -ef, and of ps -e, whose headers are others. */
static const struct column full_columns[] = {
	{ { NULL }, "UID", -8, print_user },   { { NULL }, "PID", 7, print_pid },
	{ { NULL }, "PPID", 7, print_parent }, { { NULL }, "C", 2, print_share },
	{ { NULL }, "STIME", 5, print_start }, { { NULL }, "TTY", -8, print_terminal },
	{ { NULL }, "TIME", 8, print_time },   { { NULL }, "CMD", -27, print_command },
};
static const struct column short_columns[] = {
	{ { NULL }, "PID", 7, print_pid },
	{ { NULL }, "TTY", -8, print_terminal },
	{ { NULL }, "TIME", 8, print_time },
	{ { NULL }, "CMD", -15, print_comm },
};

static const struct column *find_column(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(all_columns); i++)
		for (size_t j = 0; j < ARRAY_LEN(all_columns[i].names); j++)
			if (all_columns[i].names[j] && str_eq(all_columns[i].names[j], name))
				return &all_columns[i];
	return NULL;
}

static int column_unknown(const char *name, struct err *err)
{
	char known[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_LEN(all_columns) && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 all_columns[i].names[0]);
	err_set(err, 0, "-o %.64s: not a column that is known of processes in a virtual machine",
		name);
	return err_hint(err, "these are: %s", known);
}

static int add_columns(struct columns *columns, const char *list, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(list);
	char *rest = NULL;

	for (char *name = strtok_r(copy, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
		const struct column *column = find_column(name);

		if (!column)
			return column_unknown(name, err);
		if (columns->count == COLUMNS_MAX)
			return err_set(err, 0, "-o: more than %d columns", COLUMNS_MAX);
		columns->column[columns->count++] = column;
	}
	return 0;
}

static void set_columns(struct columns *columns, const struct column *table, size_t count)
{
	for (size_t i = 0; i < count; i++)
		columns->column[columns->count++] = &table[i];
}

/* One word of options: letters that choose processes choose all; o takes the list behind it. */
static int read_word(struct columns *columns, const char *word, const char *next, bool *full,
		     bool *took_next, struct err *err)
{
	const char *letters = word + strspn(word, "-");

	*took_next = false;
	for (; *letters; letters++) {
		if (*letters == 'f') {
			*full = true;
		} else if (*letters == 'o') {
			*took_next = !letters[1];
			if (*took_next && !next)
				return err_set(err, 0, "%.64s: the columns are missing", word);
			return add_columns(columns, *took_next ? next : letters + 1, err);
		} else if (!strchr("eAax", *letters)) {
			return err_set(err, 0,
				       "%.64s: of ps's options only -e, -A, -f, ax and -o can be "
				       "given for processes in a virtual machine",
				       word);
		}
	}
	return 0;
}

static int choose_columns(int argc, char **argv, struct columns *columns, struct err *err)
{
	bool full = argc == 0, took_next;

	for (int i = 0; i < argc; i += 1 + took_next)
		if (read_word(columns, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &full,
			      &took_next, err) < 0)
			return -1;
	if (columns->count == 0 && full)
		set_columns(columns, full_columns, ARRAY_LEN(full_columns));
	else if (columns->count == 0)
		set_columns(columns, short_columns, ARRAY_LEN(short_columns));
	return 0;
}

static void print_row(const struct columns *columns, const struct moat_process *process)
{
	for (size_t i = 0; i < columns->count; i++) {
		const struct column *column = columns->column[i];
		bool last = i + 1 == columns->count;
		char cell[CELL_MAX + 1];

		if (process)
			column->print(process, cell, sizeof(cell));
		else
			snprintf(cell, sizeof(cell), "%s", column->header);
		printf("%*s%c", last && column->width < 0 ? 0 : column->width, cell,
		       last ? '\n' : ' ');
	}
}

int ps_guest(int argc, char **argv, const struct moat_processes *processes, struct err *err)
{
	struct columns columns = { .count = 0 };

	if (choose_columns(argc, argv, &columns, err) < 0)
		return -1;
	print_row(&columns, NULL);
	for (size_t i = 0; i < processes->n_processes; i++)
		print_row(&columns, &processes->processes[i]);
	return 0;
}
