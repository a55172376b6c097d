/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * moat update: change the limits of a running container. The flags are put together as the JSON
 * that --resources takes, so that one parser checks both.
 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/str.h"
#include "oci/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RESOURCES_MAX (1u << 20) /* bytes of a resources file */

enum value_kind { VALUE_NUMBER, VALUE_SIZE, VALUE_STRING };

enum limit {
	BLKIO_WEIGHT,
	CPU_PERIOD,
	CPU_QUOTA,
	CPU_BURST,
	CPU_SHARE,
	CPU_RT_PERIOD,
	CPU_RT_RUNTIME,
	CPU_IDLE,
	CPUSET_CPUS,
	CPUSET_MEMS,
	MEMORY,
	MEMORY_RESERVATION,
	MEMORY_SWAP,
	PIDS_LIMIT,
	LIMITS,
};

static const char *given[LIMITS], *resources_path, *l3_cache, *memory_bandwidth;

static const struct {
	const char *section, *property;
	enum value_kind kind;
} limits[LIMITS] = {
	[BLKIO_WEIGHT] = { "blockIO", "weight", VALUE_NUMBER },
	[CPU_PERIOD] = { "cpu", "period", VALUE_NUMBER },
	[CPU_QUOTA] = { "cpu", "quota", VALUE_NUMBER },
	[CPU_BURST] = { "cpu", "burst", VALUE_NUMBER },
	[CPU_SHARE] = { "cpu", "shares", VALUE_NUMBER },
	[CPU_RT_PERIOD] = { "cpu", "realtimePeriod", VALUE_NUMBER },
	[CPU_RT_RUNTIME] = { "cpu", "realtimeRuntime", VALUE_NUMBER },
	[CPU_IDLE] = { "cpu", "idle", VALUE_NUMBER },
	[CPUSET_CPUS] = { "cpu", "cpus", VALUE_STRING },
	[CPUSET_MEMS] = { "cpu", "mems", VALUE_STRING },
	[MEMORY] = { "memory", "limit", VALUE_SIZE },
	[MEMORY_RESERVATION] = { "memory", "reservation", VALUE_SIZE },
	[MEMORY_SWAP] = { "memory", "swap", VALUE_SIZE },
	[PIDS_LIMIT] = { "pids", "limit", VALUE_NUMBER },
};

static const struct cli_option options[] = {
	{ "resources", 'r', OPTION_STRING, &resources_path, "FILE",
	  "take the limits from a JSON file, as config.json's linux.resources; - is stdin" },
	{ "blkio-weight", 0, OPTION_STRING, &given[BLKIO_WEIGHT], "WEIGHT",
	  "share of I/O, 10 to 1000" },
	{ "cpu-period", 0, OPTION_STRING, &given[CPU_PERIOD], "MICROSECONDS",
	  "the period that the quota is for" },
	{ "cpu-quota", 0, OPTION_STRING, &given[CPU_QUOTA], "MICROSECONDS",
	  "CPU time in a period; -1: no limit" },
	{ "cpu-burst", 0, OPTION_STRING, &given[CPU_BURST], "MICROSECONDS",
	  "unused CPU time that may be saved up" },
	{ "cpu-share", 0, OPTION_STRING, &given[CPU_SHARE], "SHARES",
	  "share of CPU time, 2 to 262144" },
	{ "cpu-rt-period", 0, OPTION_STRING, &given[CPU_RT_PERIOD], "MICROSECONDS",
	  "the period of the real-time quota" },
	{ "cpu-rt-runtime", 0, OPTION_STRING, &given[CPU_RT_RUNTIME], "MICROSECONDS",
	  "real-time CPU time in a period" },
	{ "cpu-idle", 0, OPTION_STRING, &given[CPU_IDLE], "0|1",
	  "run only when nothing else does" },
	{ "cpuset-cpus", 0, OPTION_STRING, &given[CPUSET_CPUS], "LIST", "CPUs, such as 0-3,7" },
	{ "cpuset-mems", 0, OPTION_STRING, &given[CPUSET_MEMS], "LIST", "memory nodes" },
	{ "memory", 0, OPTION_STRING, &given[MEMORY], "BYTES",
	  "memory limit; K, M, G or T may follow; -1: none" },
	{ "memory-reservation", 0, OPTION_STRING, &given[MEMORY_RESERVATION], "BYTES",
	  "memory that is taken away last" },
	{ "memory-swap", 0, OPTION_STRING, &given[MEMORY_SWAP], "BYTES",
	  "limit of memory and swap together; -1: none" },
	{ "pids-limit", 0, OPTION_STRING, &given[PIDS_LIMIT], "NUMBER",
	  "how many processes and threads; -1: no limit" },
	{ "l3-cache-schema", 0, OPTION_STRING, &l3_cache, "SCHEMA",
	  "share of the L3 cache, of a container with linux.intelRdt" },
	{ "mem-bw-schema", 0, OPTION_STRING, &memory_bandwidth, "SCHEMA",
	  "share of the memory's bandwidth, likewise" },
	{ 0 },
};

static int to_number(const char *text, enum value_kind kind, int64_t *value)
{
	static const char units[] = "kmgt";
	_cleanup_free_ char *digits = xstrdup(text);
	size_t length = strlen(digits);
	int shift = 0;

	if (kind == VALUE_SIZE && length > 1 && (digits[length - 1] | 0x20) == 'b')
		digits[--length] = '\0';
	for (int i = 0; kind == VALUE_SIZE && length > 1 && units[i]; i++)
		if ((digits[length - 1] | 0x20) == units[i]) {
			shift = 10 * (i + 1);
			digits[length - 1] = '\0';
			break;
		}
	if (str_to_i64(digits, value) < 0)
		return -1;
	if (*value > INT64_MAX >> shift || *value < INT64_MIN >> shift) {
		errno = ERANGE;
		return -1;
	}
	*value *= (int64_t)1 << shift;
	return 0;
}

static int put_limit(struct json_writer *writer, enum limit limit, struct err *err)
{
	int64_t number;

	json_put_string(writer, limits[limit].property);
	if (limits[limit].kind == VALUE_STRING) {
		json_put_string(writer, given[limit]);
		return 0;
	}
	if (to_number(given[limit], limits[limit].kind, &number) < 0)
		return err_set(err, errno == ERANGE ? ERANGE : 0,
			       "--%s: expected %s, found '%.64s'", options[1 + limit].name,
			       limits[limit].kind == VALUE_SIZE ? "a size such as 512M"
								: "a number",
			       given[limit]);
	json_put_i64(writer, number);
	return 0;
}

/* Limits of one section stand together in the table. */
static char *limits_json(struct err *err)
{
	struct json_writer *writer = json_writer_new(NULL);
	const char *section = NULL;
	int r = 0;

	json_begin_object(writer);
	for (enum limit i = 0; i < LIMITS && r == 0; i++) {
		if (!given[i])
			continue;
		if (!section || !str_eq(section, limits[i].section)) {
			if (section)
				json_end_object(writer);
			section = limits[i].section;
			json_put_string(writer, section);
			json_begin_object(writer);
		}
		r = put_limit(writer, i, err);
	}
	if (section)
		json_end_object(writer);
	json_end_object(writer);
	if (r == 0)
		return json_writer_finish(writer, NULL);
	free(json_writer_finish(writer, NULL));
	return NULL;
}

static char *resources_text(struct err *err)
{
	_cleanup_fd_ int fd = -1;
	char *text;

	if (!resources_path)
		return limits_json(err);
	fd = str_eq(resources_path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					 : open(resources_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno, "open %s", resources_path), NULL;
	text = fd_read_text(fd, RESOURCES_MAX, NULL);
	if (!text)
		err_set(err, errno, "read %s", resources_path);
	return text;
}

static int check_options(struct err *err)
{
	for (enum limit i = 0; resources_path && i < LIMITS; i++)
		if (given[i])
			return err_set(err, 0, "--%s: give it or --resources, not both",
				       options[1 + i].name);
	return 0;
}

static int update(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(oci_linux_resources_free_pointer) struct oci_linux_resources *resources = NULL;
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;

	if (check_options(err) < 0)
		return -1;
	text = resources_text(err);
	if (!text)
		return -1;
	resources = oci_linux_resources_parse(text, strlen(text), "resources", err);
	if (!resources)
		return -1;
	instance = instance_load(runtime, argv[0], true, err);
	if (!instance || instance_update(instance, resources, err) < 0)
		return -1;
	if (!l3_cache && !memory_bandwidth)
		return 0;
	return instance_update_shares(instance, l3_cache, memory_bandwidth, err);
}

const struct cli_command update_command = {
	.name = "update",
	.arguments = "ID",
	.summary = "change the limits of a container",
	.details = "Only what is given changes.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.run = update,
};
