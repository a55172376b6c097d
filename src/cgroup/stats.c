/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a cgroup has used: the files of v2 (admin-guide/cgroup-v2) and of v1 (cgroup-v1/). */
#include "cgroup/stats.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"
#include "oci/events.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#define FILE_MAX    (1u << 20)
#define NS_PER_US   1000u
#define NS_PER_TICK (1000000000u / 100) /* USER_HZ is 100 on all that we run on */

/* A controller's directory of the cgroup; NULL where there is none. */
static char *directory_of(const char *path, const char *controller)
{
	const struct layout *layout = layout_get();
	const struct hierarchy *v1 = layout_find(layout, controller);

	if (v1)
		return tree_directory(v1->mount, path);
	return layout->kind == CGROUP_V2 ? tree_directory(layout->unified, path) : NULL;
}

static char *read_text(const char *directory, const char *name)
{
	_cleanup_free_ char *file = xasprintf("%s/%s", directory, name);

	return file_read(AT_FDCWD, file, FILE_MAX, NULL, NULL);
}

/* A file that holds one number; "max", or no such file, is 0: so runc has it for pids.max. */
static uint64_t read_number(const char *directory, const char *name)
{
	_cleanup_free_ char *text = read_text(directory, name);
	uint64_t value = 0;

	if (text)
		text[strcspn(text, "\n")] = '\0';
	return text && str_to_u64(text, UINT64_MAX, &value) == 0 ? value : 0;
}

/* A limit of v2: "max" is the largest number, as runc has it. No such file: 0. */
static uint64_t read_limit(const char *directory, const char *name)
{
	_cleanup_free_ char *text = read_text(directory, name);

	return text && str_starts_with(text, "max") ? UINT64_MAX : read_number(directory, name);
}

/* v1 counts memory and swap together: engines that know both expect that of v2's numbers, too. */
static void read_swap_v2(const char *directory, const struct moat_memory_usage *memory,
			 struct moat_memory_usage *swap)
{
	swap->usage = read_number(directory, "memory.swap.current") + memory->usage;
	swap->limit = read_limit(directory, "memory.swap.max");
	if (swap->limit == UINT64_MAX || memory->limit > UINT64_MAX - swap->limit)
		swap->limit = UINT64_MAX;
	else
		swap->limit += memory->limit;
}

/* The value of a line "key value" of a text that may be NULL. */
static uint64_t line_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == ' ')
			return strtoull(line + length + 1, NULL, 10);
	}
	return 0;
}

static void read_cpu_v2(const char *directory, struct moat_cpu_stats *cpu)
{
	_cleanup_free_ char *text = read_text(directory, "cpu.stat");

	cpu->usage->total = line_value(text, "usage_usec") * NS_PER_US;
	cpu->usage->user = line_value(text, "user_usec") * NS_PER_US;
	cpu->usage->kernel = line_value(text, "system_usec") * NS_PER_US;
	cpu->throttling->periods = line_value(text, "nr_periods");
	cpu->throttling->throttled_periods = line_value(text, "nr_throttled");
	cpu->throttling->throttled_time = line_value(text, "throttled_usec") * NS_PER_US;
}

static void read_cpu_v1(const char *path, struct moat_cpu_stats *cpu)
{
	_cleanup_free_ char *cpuacct = directory_of(path, "cpuacct");
	_cleanup_free_ char *control = directory_of(path, "cpu");
	_cleanup_free_ char *usage = cpuacct ? read_text(cpuacct, "cpuacct.stat") : NULL;
	_cleanup_free_ char *throttling = control ? read_text(control, "cpu.stat") : NULL;

	if (cpuacct)
		cpu->usage->total = read_number(cpuacct, "cpuacct.usage");
	cpu->usage->user = line_value(usage, "user") * NS_PER_TICK;
	cpu->usage->kernel = line_value(usage, "system") * NS_PER_TICK;
	cpu->throttling->periods = line_value(throttling, "nr_periods");
	cpu->throttling->throttled_periods = line_value(throttling, "nr_throttled");
	cpu->throttling->throttled_time = line_value(throttling, "throttled_time");
}

static void read_memory_v2(const char *directory, struct moat_memory_stats *memory)
{
	_cleanup_free_ char *stat = read_text(directory, "memory.stat");
	_cleanup_free_ char *events = read_text(directory, "memory.events");

	memory->usage->usage = read_number(directory, "memory.current");
	memory->usage->limit = read_limit(directory, "memory.max");
	memory->usage->max = read_number(directory, "memory.peak");
	memory->usage->failcnt = line_value(events, "max");
	read_swap_v2(directory, memory->usage, memory->swap);
	memory->cache = line_value(stat, "file");
	memory->rss = line_value(stat, "anon");
	memory->kernel->usage = line_value(stat, "kernel");
	memory->oom_kills = line_value(events, "oom_kill");
}

static void read_usage_v1(const char *directory, const char *prefix,
			  struct moat_memory_usage *usage)
{
	char name[64];

	snprintf(name, sizeof(name), "%susage_in_bytes", prefix);
	usage->usage = read_number(directory, name);
	snprintf(name, sizeof(name), "%slimit_in_bytes", prefix);
	usage->limit = read_number(directory, name);
	snprintf(name, sizeof(name), "%smax_usage_in_bytes", prefix);
	usage->max = read_number(directory, name);
	snprintf(name, sizeof(name), "%sfailcnt", prefix);
	usage->failcnt = read_number(directory, name);
}

static void read_memory_v1(const char *directory, struct moat_memory_stats *memory)
{
	_cleanup_free_ char *stat = read_text(directory, "memory.stat");
	_cleanup_free_ char *control = read_text(directory, "memory.oom_control");

	read_usage_v1(directory, "memory.", memory->usage);
	read_usage_v1(directory, "memory.memsw.", memory->swap);
	read_usage_v1(directory, "memory.kmem.", memory->kernel);
	memory->cache = line_value(stat, "cache");
	memory->rss = line_value(stat, "rss");
	memory->oom_kills = line_value(control, "oom_kill");
}

static void add_entry(struct moat_blkio_entry **entries, size_t *count, unsigned int major,
		      unsigned int minor, const char *op, uint64_t value)
{
	*entries = xrealloc(*entries, *count + 1, sizeof(**entries));
	(*entries)[(*count)++] = (struct moat_blkio_entry){
		.major = major, .minor = minor, .op = xstrdup(op), .value = value
	};
}

/* A line of io.stat: "MAJOR:MINOR rbytes=N wbytes=N rios=N wios=N ...". */
static void add_io_line(struct moat_blkio_stats *blkio, const char *line)
{
	static const struct {
		const char *key, *op;
		bool bytes;
	} keys[] = { { " rbytes=", "Read", true },
		     { " wbytes=", "Write", true },
		     { " rios=", "Read", false },
		     { " wios=", "Write", false } };
	unsigned int major, minor;

	if (sscanf(line, "%u:%u", &major, &minor) != 2)
		return;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *at = strstr(line, keys[i].key);
		uint64_t value = at ? strtoull(at + strlen(keys[i].key), NULL, 10) : 0;

		if (at && keys[i].bytes)
			add_entry(&blkio->io_service_bytes_recursive,
				  &blkio->n_io_service_bytes_recursive, major, minor, keys[i].op,
				  value);
		else if (at)
			add_entry(&blkio->io_serviced_recursive, &blkio->n_io_serviced_recursive,
				  major, minor, keys[i].op, value);
	}
}

static void read_io_v2(const char *directory, struct moat_blkio_stats *blkio)
{
	_cleanup_free_ char *text = read_text(directory, "io.stat");
	char *rest = NULL;

	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		add_io_line(blkio, line);
}

/* Lines "MAJOR:MINOR Operation N". */
static void read_io_v1(const char *directory, const char *name, struct moat_blkio_entry **entries,
		       size_t *count)
{
	_cleanup_free_ char *text = read_text(directory, name);
	char *rest = NULL;

	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned long long value;
		unsigned int major, minor;
		char op[16];

		if (sscanf(line, "%u:%u %15s %llu", &major, &minor, op, &value) == 4)
			add_entry(entries, count, major, minor, op, value);
	}
}

static void read_v2(const char *directory, struct moat_stats *stats)
{
	read_cpu_v2(directory, stats->cpu);
	read_memory_v2(directory, stats->memory);
	read_io_v2(directory, stats->blkio);
}

static void read_v1(const char *path, struct moat_stats *stats)
{
	_cleanup_free_ char *memory = directory_of(path, "memory");
	_cleanup_free_ char *blkio = directory_of(path, "blkio");
	struct moat_blkio_stats *io = stats->blkio;

	read_cpu_v1(path, stats->cpu);
	if (memory)
		read_memory_v1(memory, stats->memory);
	if (!blkio)
		return;
	read_io_v1(blkio, "blkio.throttle.io_service_bytes_recursive",
		   &io->io_service_bytes_recursive, &io->n_io_service_bytes_recursive);
	read_io_v1(blkio, "blkio.throttle.io_serviced_recursive", &io->io_serviced_recursive,
		   &io->n_io_serviced_recursive);
}

struct moat_stats *cgroup_stats(const char *path, struct err *err)
{
	_cleanup_free_ char *pids = directory_of(path, "pids");
	const struct layout *layout = layout_get();
	struct moat_stats *stats;

	if (layout->kind == CGROUP_NONE || (pids && access(pids, F_OK) < 0)) {
		err_set(err, ENOENT, "read the use of cgroup %s", path);
		return NULL;
	}
	stats = moat_stats_new();
	if (pids) {
		stats->pids->current = read_number(pids, "pids.current");
		stats->pids->limit = read_number(pids, "pids.max");
	}
	if (layout->kind == CGROUP_V2)
		read_v2(pids, stats);
	else
		read_v1(path, stats);
	return stats;
}

int cgroup_oom_open(const char *path, struct err *err)
{
	_cleanup_free_ char *directory = directory_of(path, "memory"), *file = NULL;
	int fd;

	if (!directory)
		return err_set(err, ENOENT, "count lacks of memory: no memory controller");
	file = xasprintf("%s/%s", directory,
			 layout_get()->kind == CGROUP_V2 ? "memory.events" : "memory.oom_control");
	fd = open(file, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_set(err, errno, "open %s", file) : fd;
}

uint64_t cgroup_oom_read(int fd)
{
	char text[1024];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	return line_value(text, "oom_kill");
}

static int watch_v2(const char *directory, struct err *err)
{
	_cleanup_fd_ int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	_cleanup_free_ char *file = xasprintf("%s/memory.events", directory);

	if (fd < 0 || inotify_add_watch(fd, file, IN_MODIFY) < 0)
		return err_set(err, errno, "watch %s", file);
	return fd_steal(&fd);
}

/* v1 (cgroup-v1/memory, 10): an eventfd is registered by writing its number and the file's. */
static int watch_v1(const char *directory, struct err *err)
{
	_cleanup_fd_ int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	_cleanup_free_ char *file = xasprintf("%s/memory.oom_control", directory);
	_cleanup_free_ char *control = xasprintf("%s/cgroup.event_control", directory);
	_cleanup_fd_ int oom = open(file, O_RDONLY | O_CLOEXEC);
	char text[32];

	if (fd < 0 || oom < 0)
		return err_set(err, errno, "watch %s", file);
	snprintf(text, sizeof(text), "%d %d", fd, oom);
	if (file_write(AT_FDCWD, control, text, err) < 0)
		return -1;
	return fd_steal(&fd);
}

int cgroup_oom_watch(const char *path, struct err *err)
{
	_cleanup_free_ char *directory = directory_of(path, "memory");

	if (!directory)
		return err_set(err, ENOENT, "watch for lack of memory: no memory controller");
	return layout_get()->kind == CGROUP_V2 ? watch_v2(directory, err)
					       : watch_v1(directory, err);
}
