/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of config.json's linux.resources in the files of cgroup v2 (the kernel's
 * admin-guide/cgroup-v2). The specification speaks v1's language; what v2 does not have is an
 * error, as nobody would keep the limit.
 */
#include "base/str.h"
#include "cgroup/convert.h"
#include "cgroup/limits.h"
#include "cgroup/settings.h"
#include "oci/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static int not_in_v2(const char *what, const char *instead, struct err *err)
{
	err_set(err, ENOTSUP, "set linux.resources.%s", what);
	return err_hint(err, "cgroup v2 has nothing like it%s%s", *instead ? ": use " : "",
			instead);
}

static void add_bytes(struct settings *out, const char *file, int64_t bytes)
{
	if (bytes < 0)
		settings_add(out, "memory", file, "max")->may_lack = str_eq(file, "memory.max");
	else
		settings_add(out, "memory", file, "%" PRId64, bytes);
}

/* v1 counts memory and swap together, v2 swap alone. */
static int add_swap(const struct oci_memory *memory, const struct limits_now *now,
		    struct settings *out, struct err *err)
{
	int64_t limit = memory->limit ? memory->limit : now->memory_limit;
	struct setting *s;

	if (memory->swap == 0) {
		/* Under v1 a swap limit cannot be below memory's, so engines send no other. */
		if (memory->limit < 0)
			settings_add(out, "memory", "memory.swap.max", "max")->may_lack = true;
		return 0;
	}
	if (memory->swap < 0) {
		settings_add(out, "memory", "memory.swap.max", "max")->may_lack = true;
		return 0;
	}
	if (limit <= 0)
		return err_set(err, 0,
			       "set linux.resources.memory.swap, which counts memory and swap "
			       "together: it needs memory.limit, too");
	s = settings_add(out, "memory", "memory.swap.max", "%" PRId64, memory->swap - limit);
	s->may_lack = !limits_kernel_swaps();
	return 0;
}

static int memory_v2(const struct oci_memory *memory, const struct limits_now *now,
		     struct settings *out, struct err *err)
{
	if (limits_check_memory(memory, now, err) < 0)
		return -1;
	if (memory->has_swappiness)
		return not_in_v2("memory.swappiness", "", err);
	if (memory->disable_oom_killer)
		return not_in_v2("memory.disableOOMKiller", "", err);
	if (memory->kernel > 0 || memory->kernel_tcp > 0)
		return not_in_v2("memory.kernel", "memory.limit, which includes it", err);
	if (add_swap(memory, now, out, err) < 0)
		return -1;
	if (memory->limit)
		add_bytes(out, "memory.max", memory->limit);
	if (memory->reservation)
		add_bytes(out, "memory.low", memory->reservation);
	return 0;
}

static void cpu_max(const struct oci_cpu *cpu, const struct limits_now *now, struct settings *out)
{
	char quota[32] = "max", period[32] = "";

	if (cpu->quota > 0)
		snprintf(quota, sizeof(quota), "%" PRId64, cpu->quota);
	else if (!cpu->quota && *now->cpu_quota)
		snprintf(quota, sizeof(quota), "%.31s", now->cpu_quota);
	if (cpu->period)
		snprintf(period, sizeof(period), " %" PRIu64, cpu->period);
	/* A period that is left out stays as it is. */
	if (cpu->quota || cpu->period)
		settings_add(out, "cpu", "cpu.max", "%s%s", quota, period)->may_lack =
			str_eq(quota, "max");
	if (cpu->has_burst)
		settings_add(out, "cpu", "cpu.max.burst", "%" PRIu64, cpu->burst);
}

static int cpu_v2(const struct oci_cpu *cpu, const struct limits_now *now, struct settings *out,
		  struct err *err)
{
	if (cpu->realtime_runtime || cpu->realtime_period)
		return not_in_v2("cpu.realtimeRuntime and realtimePeriod", "", err);
	/* Weight and idle exclude each other; the one that takes away what the other needs last. */
	if (cpu->has_idle && cpu->idle == 0)
		settings_add(out, "cpu", "cpu.idle", "0");
	if (cpu->shares)
		settings_add(out, "cpu", "cpu.weight", "%u", cpu_weight(cpu->shares));
	if (cpu->has_idle && cpu->idle != 0)
		settings_add(out, "cpu", "cpu.idle", "%" PRId64, cpu->idle);
	cpu_max(cpu, now, out);
	if (cpu->cpus && *cpu->cpus)
		settings_add(out, "cpuset", "cpuset.cpus", "%s", cpu->cpus);
	if (cpu->mems && *cpu->mems)
		settings_add(out, "cpuset", "cpuset.mems", "%s", cpu->mems);
	return 0;
}

static void add_weight(struct settings *out, const char *device, unsigned int weight)
{
	struct setting *s = settings_add(out, "io", "io.bfq.weight", "%s%u", device, weight);

	s->other_file = xstrdup("io.weight");
	s->other_value = xasprintf("%s%u", device, io_weight(weight));
}

static void add_throttles(struct settings *out, const struct oci_throttle_device *devices,
			  size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++) {
		char rate[32] = "max";

		if (devices[i].rate)
			snprintf(rate, sizeof(rate), "%" PRIu64, devices[i].rate);
		settings_add(out, "io", "io.max", "%" PRId64 ":%" PRId64 " %s=%s", devices[i].major,
			     devices[i].minor, key, rate);
	}
}

static int block_io_v2(const struct oci_block_io *io, struct settings *out, struct err *err)
{
	if (io->leaf_weight)
		return not_in_v2("blockIO.leafWeight", "", err);
	if (io->weight)
		add_weight(out, "", io->weight);
	for (size_t i = 0; i < io->n_weight_device; i++) {
		const struct oci_weight_device *device = &io->weight_device[i];
		char name[48];

		if (device->leaf_weight)
			return not_in_v2("blockIO.weightDevice.leafWeight", "", err);
		snprintf(name, sizeof(name), "%" PRId64 ":%" PRId64 " ", device->major,
			 device->minor);
		if (device->weight)
			add_weight(out, name, device->weight);
	}
	add_throttles(out, io->throttle_read_bps_device, io->n_throttle_read_bps_device, "rbps");
	add_throttles(out, io->throttle_write_bps_device, io->n_throttle_write_bps_device, "wbps");
	add_throttles(out, io->throttle_read_iops_device, io->n_throttle_read_iops_device, "riops");
	add_throttles(out, io->throttle_write_iops_device, io->n_throttle_write_iops_device,
		      "wiops");
	return 0;
}

/* The controller that a file belongs to, for those that can be switched on. */
static const char *controller_of(const char *file)
{
	static const char *const names[] = { "cpu",    "cpuset", "dmem", "hugetlb", "io",
					     "memory", "misc",	 "pids", "rdma" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(file, names[i], n) == 0 && file[n] == '.')
			return names[i];
	}
	return NULL;
}

/* The files of linux.resources.unified by their own names; each line takes a write of its own. */
static int unified_v2(const struct oci_linux_resources *resources, struct settings *out,
		      struct err *err)
{
	for (size_t i = 0; i < resources->n_unified; i++) {
		const struct oci_pair *pair = &resources->unified[i];
		const char *line = pair->value;

		if (strchr(pair->key, '/') || !strchr(pair->key, '.') || pair->key[0] == '.')
			return err_set(err, 0,
				       "set linux.resources.unified['%.100s']: it must be the name "
				       "of a cgroup v2 file, such as memory.high",
				       pair->key);
		do {
			int n = (int)strcspn(line, "\n");

			settings_add(out, controller_of(pair->key), pair->key, "%.*s", n, line);
			line += n;
			line += *line == '\n';
		} while (*line);
	}
	return 0;
}

int settings_v2(const struct oci_linux_resources *r, const struct limits_now *now,
		struct settings *out, struct err *err)
{
	*out = (struct settings){ 0 };
	if (!r)
		return 0;
	if ((r->memory && memory_v2(r->memory, now, out, err) < 0) ||
	    (r->cpu && cpu_v2(r->cpu, now, out, err) < 0) ||
	    (r->block_io && block_io_v2(r->block_io, out, err) < 0))
		return settings_free(out), -1;
	if (r->network && (r->network->has_class_id || r->network->n_priorities)) {
		not_in_v2("network", "a filter on the cgroup in nftables", err);
		return settings_free(out), -1;
	}
	limits_common(r, "max", out);
	if (unified_v2(r, out, err) < 0)
		return settings_free(out), -1;
	return 0;
}
