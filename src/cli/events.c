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

/* Prints the statistics, and a line of its own where memory ran out since the last time. */
static int print_stats(struct instance *instance, bool oom_only, uint64_t *oom_kills,
		       struct err *err)
{
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats = instance_stats(instance, err);

	if (!stats)
		return -1;
	if (stats->memory->oom_kills > *oom_kills)
		print_event(instance, "oom", NULL);
	*oom_kills = stats->memory->oom_kills;
	if (!oom_only)
		print_event(instance, "stats", stats);
	return 0;
}

/* The kernel tells of lack of memory before it counts the process that it ends. */
static int print_oom(struct instance *instance, uint64_t *oom_kills, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	uint64_t before = *oom_kills;

	for (int tries = 0; tries < 20 && *oom_kills == before; tries++) {
		if (tries > 0)
			nanosleep(&pause, NULL);
		if (print_stats(instance, true, oom_kills, err) < 0)
			return -1;
	}
	return 0;
}

/* Whether whoever tells of lack of memory said so just now. */
static bool was_told(struct pollfd *oom)
{
	char drained[4096];
	ssize_t n;

	if (!(oom->revents & (POLLIN | POLLHUP | POLLERR)))
		return false;
	n = read(oom->fd, drained, sizeof(drained));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		oom->fd = -1; /* it has gone */
	return n > 0;
}

/*
 * Where the first process itself was ended for lack of memory there is nobody to ask: a machine has
 * gone then, but its word came before; a cgroup on the host is there until the container is
 * deleted.
 */
static void print_last(struct instance *instance, struct pollfd *oom, bool owed, uint64_t oom_kills)
{
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats = NULL;

	if (instance->container.isolation == ISOLATION_VM) {
		owed = (poll(oom, 1, 0) > 0 && was_told(oom)) || owed;
	} else {
		stats = instance->engine->stats(&instance->container, NULL);
		owed = stats && stats->memory->oom_kills > oom_kills;
	}
	if (owed)
		print_event(instance, "oom", NULL);
}

static int follow(struct instance *instance, int milliseconds, struct err *err)
{
	_cleanup_fd_ int oom = instance_oom_watch(instance, NULL);
	_cleanup_(moat_stats_free_pointer) struct moat_stats *first = instance_stats(instance, err);
	uint64_t oom_kills;
	struct pollfd poll_oom = { .fd = oom, .events = POLLIN };
	const struct timespec ending = { .tv_nsec = 50000000 }; /* what does not run stops soon */
	bool owed = false;

	if (!first)
		return -1;
	oom_kills = first->memory->oom_kills;
	while (instance_status(instance) != STATUS_STOPPED) {
		bool woken = poll(&poll_oom, 1, milliseconds) > 0;
		int r = 0;

		owed = (woken && was_told(&poll_oom)) || owed;
		if (owed)
			r = print_oom(instance, &oom_kills, err);
		else if (!woken)
			r = print_stats(instance, false, &oom_kills, err);
		if (r == 0) {
			owed = false;
			continue;
		}
		if (err->code != ERR_NOT_RUNNING && instance_status(instance) != STATUS_STOPPED)
			return -1;
		nanosleep(&ending, NULL);
	}
	print_last(instance, &poll_oom, owed, oom_kills);
	return 0;
}

static int events(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	uint64_t oom_kills = UINT64_MAX;
	int milliseconds;

	if (parse_interval(interval, &milliseconds, err) < 0)
		return -1;
	instance = instance_load(runtime, argv[0], false, err);
	if (!instance)
		return -1;
	if (stats_once)
		return print_stats(instance, false, &oom_kills, err);
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
