/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits as what they are in the end: texts to be written to files. Making the list and writing
 * it are apart, so that all conversions can be tested without a cgroup.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oci_linux_resources;

struct setting {
	const char *controller; /* who must be there for it; NULL: none */
	char *file, *value;
	/* Written instead where the file does not exist; NULL: nothing. */
	char *other_file, *other_value;
	/* Nothing is lost where there is no such file, or controller: the limit holds without it.
	 */
	bool may_lack;
	bool deferred;
};

struct settings {
	struct setting *items;
	size_t count;
};

/*
 * What an update has to know of the limits that are in force. Values that the cgroup does not say,
 * as at create, are 0, and cpu_quota "".
 */
struct limits_now {
	uint64_t memory_usage;
	int64_t memory_limit;
	char cpu_quota[32]; /* as in cpu.max: "max" or microseconds */
};

/*
 * settings_v2(), settings_v1() - what to write for the limits in resources.
 * @resources: may be NULL.
 *
 * Devices are no part of it: see devices.h. Returns 0 (release it with settings_free()), or -1 with
 * err set: a limit that contradicts another, or that this version of cgroups has not.
 */
int settings_v2(const struct oci_linux_resources *resources, const struct limits_now *now,
		struct settings *settings, struct err *err);
int settings_v1(const struct oci_linux_resources *resources, const struct limits_now *now,
		struct settings *settings, struct err *err);

void settings_free(struct settings *settings);

/* settings_add() - append one; the text is made from fmt. Valid until the next call. */
struct setting *settings_add(struct settings *settings, const char *controller, const char *file,
			     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * settings_write() - write those that concern a hierarchy.
 * @dirfd: the cgroup's directory there.
 * @path: its name, for messages.
 * @controllers: list of the hierarchy's; NULL: all.
 *
 * Some limits can only change in one order, which depends on their old values (memory and swap on
 * v1, quota and burst): one that is refused is tried again after the others.
 */
int settings_write(struct settings *settings, int dirfd, const char *path, const char *controllers,
		   struct err *err);

static inline void settings_cleanup(struct settings *settings)
{
	settings_free(settings);
}
