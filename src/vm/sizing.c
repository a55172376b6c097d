/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sizes of machines: vCPUs and memory out of limits that were written for processes. */
#include "vm/sizing.h"

#include "vmm/vmm.h"

#include <sched.h>
#include <string.h>
#include <sys/sysinfo.h>

#define MIB	     (1ull << 20)
#define ALIGNMENT    (2 * MIB)
#define MEMORY_MIN   (64 * MIB) /* a kernel, the agent and a shell */
#define HOST_THREADS 16		/* monitor, vmm, fsd, victim beside the vCPUs */
#define QUEUES_MAX   4u /* of a device: more win nothing where one thread or disk serves them */

_Static_assert(QUEUES_MAX <= VMM_DISK_QUEUES_MAX && QUEUES_MAX <= VMM_NET_PAIRS_MAX,
	       "the vmm can have as many");

/*
 * What the guest kernel takes: its image, slabs and the agent, and 64 bytes a page for struct page.
 */
static uint64_t kernel_share(uint64_t memory)
{
	return 40 * MIB + memory / 64;
}

static unsigned int host_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned int)CPU_COUNT(&set);
}

static const struct oci_linux_resources *resources_of(const struct oci_config *config)
{
	return config->linux_ ? config->linux_->resources : NULL;
}

static const struct oci_vm_hw_config *hardware_of(const struct oci_config *config)
{
	return config->vm ? config->vm->hw_config : NULL;
}

static uint64_t quota_cpus(const struct oci_cpu *cpu)
{
	uint64_t period = cpu->has_period && cpu->period ? cpu->period : 100000;

	return ((uint64_t)cpu->quota + period - 1) / period;
}

static int choose_vcpus(const struct oci_config *config, const struct moat_settings *settings,
			unsigned int *vcpus, struct err *err)
{
	const struct oci_linux_resources *resources = resources_of(config);
	const struct oci_vm_hw_config *hardware = hardware_of(config);
	uint64_t wanted = settings->vcpus;
	unsigned int most = host_cpus();

	if (hardware && hardware->has_vcpus) {
		if (hardware->vcpus > VMM_VCPUS_MAX)
			return err_set(err, 0, "vm.hwConfig.vcpus is %u: at most %d are possible",
				       hardware->vcpus, VMM_VCPUS_MAX);
		*vcpus = hardware->vcpus; /* asked for by number: also more than the host has */
		return 0;
	}
	if (resources && resources->cpu && resources->cpu->has_quota && resources->cpu->quota > 0)
		wanted = quota_cpus(resources->cpu);
	if (most > VMM_VCPUS_MAX)
		most = VMM_VCPUS_MAX;
	*vcpus = wanted > most ? most : wanted < 1 ? 1 : (unsigned int)wanted;
	return 0;
}

/* Where the size of the memory is from, and how much is asked for there. */
static const char *find_memory(const struct oci_config *config,
			       const struct moat_settings *settings, uint64_t *bytes,
			       bool *is_limit)
{
	const struct oci_linux_resources *resources = resources_of(config);
	const struct oci_vm_hw_config *hardware = hardware_of(config);
	const struct oci_memory *memory = resources ? resources->memory : NULL;

	*is_limit = false;
	if (hardware && hardware->has_memory) {
		*bytes = hardware->memory;
		return "vm.hwConfig.memory";
	}
	if (memory && memory->has_limit && memory->limit > 0) {
		*is_limit = true;
		*bytes = (uint64_t)memory->limit;
		return "linux.resources.memory.limit";
	}
	*bytes = settings->memory;
	return "the operator's file: memory";
}

/*
 * As many of so many bytes as a guest here can use. Swap is not counted: the tmpfs that has the
 * guest's memory takes no more than the RAM (guest_memory_create()), and what is chosen now is
 * chosen again later in the machine's life.
 */
static uint64_t reach(uint64_t limit)
{
	struct sysinfo info;
	uint64_t most;

	if (sysinfo(&info) < 0)
		return limit;
	most = (uint64_t)info.totalram * info.mem_unit / ALIGNMENT * ALIGNMENT;
	return limit < most ? limit : most;
}

uint64_t sizing_host_memory(void)
{
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return UINT64_MAX;
	return ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
}

int sizing_check_memory(const struct oci_config *config, const struct moat_settings *settings,
			uint64_t most, struct err *err)
{
	bool is_limit;
	uint64_t bytes;
	const char *origin = find_memory(config, settings, &bytes, &is_limit);

	if (is_limit || bytes <= most)
		return 0;
	return err_set(err, 0,
		       "%s is %llu MiB, more than a virtual machine can have here (this host has "
		       "%llu MiB of memory and swap): lower it",
		       origin, (unsigned long long)(bytes / MIB), (unsigned long long)(most / MIB));
}

int sizing_choose(const struct oci_config *config, const struct moat_settings *settings,
		  struct machine_size *size, struct err *err)
{
	bool is_limit;
	uint64_t bytes;
	const char *origin = find_memory(config, settings, &bytes, &is_limit);

	if (is_limit) {
		bytes = reach(bytes + kernel_share(bytes));
		if (bytes < MEMORY_MIN)
			bytes = MEMORY_MIN; /* the guest's own cgroup keeps the limit */
	}
	if (bytes < MEMORY_MIN)
		return err_set(err, 0, "%s asks for %llu bytes: a machine needs at least %llu MiB",
			       origin, (unsigned long long)bytes,
			       (unsigned long long)(MEMORY_MIN / MIB));
	if (bytes > UINT64_MAX / 4)
		return err_set(err, 0, "%s asks for %llu bytes: too much", origin,
			       (unsigned long long)bytes);
	size->memory = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return choose_vcpus(config, settings, &size->vcpus, err);
}

bool sizing_suits(const struct oci_config *config, const struct machine_size *size, uint64_t limit)
{
	const struct oci_vm_hw_config *hardware = hardware_of(config);

	return (hardware && hardware->has_memory) || reach(limit) <= size->memory;
}

unsigned int sizing_queues(unsigned int vcpus)
{
	return vcpus < QUEUES_MAX ? vcpus : QUEUES_MAX;
}

static void grow(int64_t *limit, bool has_limit, uint64_t by)
{
	if (has_limit && *limit > 0)
		*limit = *limit < INT64_MAX - (int64_t)by ? *limit + (int64_t)by : INT64_MAX;
}

void sizing_host(const struct oci_linux_resources *resources, const struct moat_settings *settings,
		 const struct machine_size *size, struct host_resources *host)
{
	memset(host, 0, sizeof(*host));
	if (!resources)
		return;
	host->resources = *resources;
	host->resources.devices = NULL;
	host->resources.n_devices = 0;
	if (resources->memory) {
		int64_t limit = resources->memory->has_limit ? resources->memory->limit : 0;
		uint64_t extra = settings->overhead;

		/* what RAM has beyond the workload's limit */
		if (limit > 0 && size->memory > (uint64_t)limit)
			extra += size->memory - (uint64_t)limit;
		host->memory = *resources->memory;
		grow(&host->memory.limit, host->memory.has_limit, extra);
		grow(&host->memory.reservation, host->memory.has_reservation, extra);
		grow(&host->memory.swap, host->memory.has_swap, extra);
		host->memory.has_kernel = host->memory.has_kernel_tcp = false;
		host->resources.memory = &host->memory;
	}
	if (resources->pids) {
		/* The workload's processes are the guest's; its cgroup there counts them. */
		host->pids = *resources->pids;
		if (host->pids.has_limit && host->pids.limit > 0)
			host->pids.limit = (int64_t)size->vcpus + HOST_THREADS +
					   VMM_DISKS_MAX * sizing_queues(size->vcpus);
		host->resources.pids = &host->pids;
	}
}
