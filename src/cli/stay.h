/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A command that makes a container that runs, and stays until its end or leaves it behind: run and
 * restore.
 */
#pragma once

#include "cli/cli.h"

struct stay {
	bool detach, keep, no_subreaper;
};

extern struct stay stay;

/* Rows of a table of options. */
#define STAY_OPTIONS                                                                               \
	{ "detach", 'd', OPTION_FLAG, &stay.detach, NULL, "leave it running and return" },         \
		{ "keep",     0,    OPTION_FLAG,                                                   \
		  &stay.keep, NULL, "do not delete the container when it has ended" },             \
	{                                                                                          \
		"no-subreaper", 0, OPTION_FLAG, &stay.no_subreaper, NULL,                          \
			"leave reaping the container's orphans to others"                          \
	}

/*
 * stay_run() - make a container and see it through.
 * @make: makes it, with what creation.h has prepared; NULL with err set and nothing left.
 * @start: lets it run; NULL: it does.
 *
 * Returns the exit status of its first process, 0 where it is left behind, or -1 with err set.
 */
int stay_run(struct runtime *runtime, const char *id,
	     struct instance *(*make)(const struct runtime *runtime, const char *id,
				      struct err *err),
	     int (*start)(struct instance *instance, struct err *err), struct err *err);
