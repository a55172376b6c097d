/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of config.json's linux.resources in the files of cgroup v1 (the kernel's
 * admin-guide/cgroup-v1), whose language the specification speaks.
 */
#include "cgroup/limits.h"
#include "cgroup/settings.h"
#include "oci/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MEMORY_LIMIT "memory.limit_in_bytes"
#define MEMORY_SWAP  "memory.memsw.limit_in_bytes"

static void add_number(struct settings *out, const char *controller, const char *file,
		       int64_t number)
{
	settings_add(out, controller, file, "%" PRId64, number);
}

/* One that -1 takes away. */
static void add_limit(struct settings *out, const char *controller, const char *file, int64_t limit)
{
	add_number(out, controller, file, limit);
	out->items[out->count - 1].may_lack = limit < 0;
}

static int memory_v1(const struct oci_memory *memory, const struct limits_now *now,
		     struct settings *out, struct err *err)
{
	int64_t swap = memory->swap;

	if (limits_check_memory(memory, now, err) < 0)
		return -1;
	if (memory->limit < 0 && !swap)
		swap = -1; /* memory cannot have more than memory and swap together */
	if (memory->limit)
		add_limit(out, "memory", MEMORY_LIMIT, memory->limit);
	if (swap) {
		add_number(out, "memory", MEMORY_SWAP, swap);
		out->items[out->count - 1].may_lack = swap < 0 || !limits_kernel_swaps();
	}
	if (memory->reservation)
		add_number(out, "memory", "memory.soft_limit_in_bytes", memory->reservation);
	if (memory->kernel > 0)
		add_number(out, "memory", "memory.kmem.limit_in_bytes", memory->kernel);
	if (memory->kernel_tcp > 0)
		add_number(out, "memory", "memory.kmem.tcp.limit_in_bytes", memory->kernel_tcp);
	if (memory->has_swappiness)
		add_number(out, "memory", "memory.swappiness", (int64_t)memory->swappiness);
	if (memory->has_disable_oom_killer)
		add_number(out, "memory", "memory.oom_control", memory->disable_oom_killer);
	return 0;
}

static void cpu_v1(const struct oci_cpu *cpu, struct settings *out)
{
	if (cpu->has_idle && cpu->idle == 0)
		add_number(out, "cpu", "cpu.idle", 0);
	if (cpu->shares)
		settings_add(out, "cpu", "cpu.shares", "%" PRIu64, cpu->shares);
	if (cpu->has_idle && cpu->idle != 0)
		add_number(out, "cpu", "cpu.idle", cpu->idle);
	if (cpu->period)
		settings_add(out, "cpu", "cpu.cfs_period_us", "%" PRIu64, cpu->period);
	if (cpu->quota)
		add_limit(out, "cpu", "cpu.cfs_quota_us", cpu->quota < 0 ? -1 : cpu->quota);
	if (cpu->has_burst)
		settings_add(out, "cpu", "cpu.cfs_burst_us", "%" PRIu64, cpu->burst);
	if (cpu->realtime_period)
		settings_add(out, "cpu", "cpu.rt_period_us", "%" PRIu64, cpu->realtime_period);
	if (cpu->realtime_runtime)
		add_number(out, "cpu", "cpu.rt_runtime_us", cpu->realtime_runtime);
	if (cpu->cpus && *cpu->cpus)
		settings_add(out, "cpuset", "cpuset.cpus", "%s", cpu->cpus);
	if (cpu->mems && *cpu->mems)
		settings_add(out, "cpuset", "cpuset.mems", "%s", cpu->mems);
}

/* The weights of CFQ, which kernels before 5.0 have, else those of BFQ. */
static void add_weight(struct settings *out, const char *file, const char *device,
		       unsigned int weight)
{
	struct setting *s;
	char name[64];

	snprintf(name, sizeof(name), "blkio.%s", file);
	s = settings_add(out, "blkio", name, "%s%u", device, weight);
	s->other_file = xasprintf("blkio.bfq.%s", file);
	s->other_value = xstrdup(s->value);
}

static void add_throttles(struct settings *out, const struct oci_throttle_device *devices,
			  size_t count, const char *file)
{
	for (size_t i = 0; i < count; i++)
		settings_add(out, "blkio", file, "%" PRId64 ":%" PRId64 " %" PRIu64,
			     devices[i].major, devices[i].minor, devices[i].rate);
}

static void block_io_v1(const struct oci_block_io *io, struct settings *out)
{
	if (io->weight)
		add_weight(out, "weight", "", io->weight);
	if (io->leaf_weight)
		add_weight(out, "leaf_weight", "", io->leaf_weight);
	for (size_t i = 0; i < io->n_weight_device; i++) {
		const struct oci_weight_device *device = &io->weight_device[i];
		char name[48];

		snprintf(name, sizeof(name), "%" PRId64 ":%" PRId64 " ", device->major,
			 device->minor);
		if (device->weight)
			add_weight(out, "weight_device", name, device->weight);
		if (device->leaf_weight)
			add_weight(out, "leaf_weight_device", name, device->leaf_weight);
	}
	add_throttles(out, io->throttle_read_bps_device, io->n_throttle_read_bps_device,
		      "blkio.throttle.read_bps_device");
	add_throttles(out, io->throttle_write_bps_device, io->n_throttle_write_bps_device,
		      "blkio.throttle.write_bps_device");
	add_throttles(out, io->throttle_read_iops_device, io->n_throttle_read_iops_device,
		      "blkio.throttle.read_iops_device");
	add_throttles(out, io->throttle_write_iops_device, io->n_throttle_write_iops_device,
		      "blkio.throttle.write_iops_device");
}

static void network_v1(const struct oci_network *network, struct settings *out)
{
	if (network->has_class_id)
		settings_add(out, "net_cls", "net_cls.classid", "%" PRIu32, network->class_id);
	for (size_t i = 0; i < network->n_priorities; i++)
		settings_add(out, "net_prio", "net_prio.ifpriomap", "%s %" PRIu32,
			     network->priorities[i].name, network->priorities[i].priority);
}

int settings_v1(const struct oci_linux_resources *r, const struct limits_now *now,
		struct settings *out, struct err *err)
{
	*out = (struct settings){ 0 };
	if (!r)
		return 0;
	if (r->n_unified) {
		err_set(err, ENOTSUP, "set linux.resources.unified['%.100s']", r->unified[0].key);
		return err_hint(err, "these are files of cgroup v2, and this machine runs v1: boot "
				     "with systemd.unified_cgroup_hierarchy=1");
	}
	if (r->memory && memory_v1(r->memory, now, out, err) < 0)
		return settings_free(out), -1;
	if (r->cpu)
		cpu_v1(r->cpu, out);
	if (r->block_io)
		block_io_v1(r->block_io, out);
	if (r->network)
		network_v1(r->network, out);
	limits_common(r, "limit_in_bytes", out);
	return 0;
}
