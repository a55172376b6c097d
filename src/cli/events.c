/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat events: what a container uses, and when memory runs out in it, as lines of JSON. */
#include "cli/cli.h"

#include "base/str.h"
#include "oci/events.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

#define INTERVAL_MAX_S 86400u

static const char *interval = "5s";
static bool stats_once;

static const struct cli_option options[] = {
	{ "interval", 0, OPTION_STRING, &interval, "TIME",
	  "time between two lines of statistics: 5s, 500ms, 1m (5s)" },
	{ "stats", 0, OPTION_FLAG, &stats_once, NULL, "print the statistics once and end" },
	{ 0 },
};

static int parse_interval(const char *text, int *milliseconds, struct err *err)
{
	static const struct {
		const char *suffix;
		unsigned int milliseconds;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "", 1000 } };
	_cleanup_free_ char *digits = xstrdup(text);
	uint64_t number;

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (!str_ends_with(digits, units[i].suffix))
			continue;
		digits[strlen(digits) - strlen(units[i].suffix)] = '\0';
		if (str_to_u64(digits, INTERVAL_MAX_S, &number) < 0 || number == 0 ||
		    number * units[i].milliseconds > INTERVAL_MAX_S * 1000)
			break;
		*milliseconds = (int)(number * units[i].milliseconds);
		return 0;
	}
	return err_set(err, 0, "--interval: expected a time such as 5s, found '%.64s'", text);
}

static void print_event(const struct instance *instance, const char *type, struct moat_stats *stats)
{
	struct moat_event event = { .type = (char *)type,
				    .id = (char *)instance->container.id,
				    .data = stats };
	_cleanup_free_ char *text = moat_event_write(&event, NULL);

	puts(text);
	fflush(stdout);
}

/* What is followed, and how much of it was told. */
struct follow {
	struct instance *instance;
	struct pollfd oom;  /* instance_oom_watch() */
	uint64_t oom_kills; /* that a line was printed for, or that there were before */
	bool owed;	    /* a line, for what has happened and is not counted yet */
};

/* Of what is counted a line is printed once, whoever tells of it first. */
static void print_oom(struct follow *follow, uint64_t oom_kills)
{
	if (oom_kills <= follow->oom_kills)
		return;
	print_event(follow->instance, "oom", NULL);
	follow->oom_kills = oom_kills;
}

/* Prints the statistics, and a line of its own where memory ran out since the last time. */
static int print_stats(struct follow *follow, bool oom_only, struct err *err)
{
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats =
		instance_stats(follow->instance, err);

	if (!stats)
		return -1;
	print_oom(follow, stats->memory->oom_kills);
	if (!oom_only)
		print_event(follow->instance, "stats", stats);
	return 0;
}

/* The kernel tells of lack of memory before it counts the process that it ends. */
static int print_owed(struct follow *follow, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t before = follow->oom_kills;

	for (int tries = 0; tries < 20 && follow->oom_kills == before; tries++) {
		if (tries > 0)
			nanosleep(&pause, NULL);
		if (print_stats(follow, true, err) < 0)
			return -1;
	}
	follow->owed = false;
	return 0;
}

/* Takes what there is to hear of lack of memory: a machine says how much, the kernel that it is. */
static void hear(struct follow *follow)
{
	uint64_t words[512]; /* of one message; or of many events */
	struct pollfd *oom = &follow->oom;
	ssize_t n;

	if (!(oom->revents & (POLLIN | POLLHUP | POLLERR)))
		return;
	n = read(oom->fd, words, sizeof(words));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		oom->fd = -1; /* it has gone */
	if (follow->instance->container.isolation != ISOLATION_VM)
		follow->owed = n > 0 || follow->owed;
	else if (n == (ssize_t)sizeof(words[0]))
		print_oom(follow, words[0]);
}

/*
 * Where the first process itself was ended for lack of memory there is nobody to ask: a machine has
 * gone then, but its word came before; a cgroup on the host is there until the container is
 * deleted.
 */
static void print_last(struct follow *follow)
{
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats = NULL;
	struct instance *instance = follow->instance;

	if (instance->container.isolation == ISOLATION_VM) {
		while (poll(&follow->oom, 1, 0) > 0)
			hear(follow);
	} else {
		stats = instance->engine->stats(&instance->container, NULL);
		if (stats)
			print_oom(follow, stats->memory->oom_kills);
	}
}

static int follow_to_end(struct follow *follow, int milliseconds, struct err *err)
{
	const struct timespec ending = { .tv_nsec = 50000000 }; /* what does not run stops soon */

	while (instance_status(follow->instance) != STATUS_STOPPED) {
		bool woken = poll(&follow->oom, 1, milliseconds) > 0;
		int r = 0;

		if (woken)
			hear(follow);
		if (follow->owed)
			r = print_owed(follow, err);
		else if (!woken)
			r = print_stats(follow, false, err);
		if (r == 0)
			continue;
		if (err->code != ERR_NOT_RUNNING &&
		    instance_status(follow->instance) != STATUS_STOPPED)
			return -1;
		nanosleep(&ending, NULL);
	}
	print_last(follow);
	return 0;
}

static int follow(struct instance *instance, int milliseconds, struct err *err)
{
	_cleanup_fd_ int oom = instance_oom_watch(instance, NULL);
	_cleanup_(moat_stats_free_pointer) struct moat_stats *first = instance_stats(instance, err);
	struct follow follow = { .instance = instance, .oom = { .fd = oom, .events = POLLIN } };

	if (!first)
		return -1;
	follow.oom_kills = first->memory->oom_kills;
	return follow_to_end(&follow, milliseconds, err);
}

static int events(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	struct follow once = { .oom_kills = UINT64_MAX };
	int milliseconds;

	if (parse_interval(interval, &milliseconds, err) < 0)
		return -1;
	instance = instance_load(runtime, argv[0], false, err);
	if (!instance)
		return -1;
	once.instance = instance;
	if (stats_once)
		return print_stats(&once, false, err);
	return follow(instance, milliseconds, err);
}

const struct cli_command events_command = {
	.name = "events",
	.arguments = "ID",
	.summary = "print what a container uses and when its memory runs out, as JSON lines",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.run = events,
};
