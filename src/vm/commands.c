/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands for a running container, in two halves: the guest's, which the monitor asks for, and the
 * host's cgroup, which holds the machine.
 */
#include "vm/commands.h"

#include "base/fd.h"
#include "cgroup/cgroup.h"
#include "cgroup/owned.h"
#include "cgroup/stats.h"
#include "oci/config.h"
#include "oci/events.h"
#include "oci/processes.h"
#include "vm/control.h"
#include "vm/record.h"
#include "vm/sizing.h"

#include <string.h>

#define MIB (1ull << 20)

int vm_pause(struct container *container, struct err *err)
{
	const struct control_request request = { .type = CONTROL_PAUSE };

	return control_call(container->state_fd, &request, err);
}

int vm_resume(struct container *container, struct err *err)
{
	const struct control_request request = { .type = CONTROL_RESUME };

	return control_call(container->state_fd, &request, err);
}

static int update_guest(const struct container *container,
			const struct oci_linux_resources *resources, struct err *err)
{
	struct control_request request = { .type = CONTROL_UPDATE };
	size_t size;
	_cleanup_free_ char *text = oci_linux_resources_write(resources, &size);
	_cleanup_fd_ int file = control_text(text, size, err);
	_cleanup_fd_ int fd =
		file < 0 ? -1 : control_connect(container->state_fd, CONTROL_PATIENCE_S, err);

	request.size = (uint32_t)size;
	if (fd < 0 || control_send(fd, &request, &file, 1, err) < 0)
		return -1;
	return control_reply(fd, err);
}

/* Not where it all is about the machine as a whole, such as the processors that it may be on. */
static bool is_for_guest(const struct oci_linux_resources *resources)
{
	const struct oci_cpu *cpu = resources->cpu;

	return resources->memory || resources->pids || resources->n_unified ||
	       resources->n_devices ||
	       (cpu && (cpu->has_shares || cpu->has_quota || cpu->has_burst || cpu->has_period ||
			cpu->has_idle));
}

static int refuse_memory(uint64_t limit, uint64_t has, struct err *err)
{
	err_set(err, 0,
		"change the memory limit to %llu MiB: the container's virtual machine has %llu "
		"MiB, which it keeps until its end",
		(unsigned long long)((limit + MIB - 1) / MIB), (unsigned long long)(has / MIB));
	return err_hint(err, "make it anew with a larger linux.resources.memory.limit");
}

int vm_update(struct container *container, const struct oci_linux_resources *resources,
	      struct err *err)
{
	const struct oci_memory *memory = resources->memory;
	bool for_guest = is_for_guest(resources);
	struct machine_size size;
	struct host_resources host;

	if (sizing_choose(container->config, container->settings, &size, err) < 0)
		return -1;
	if (memory && memory->has_limit && memory->limit > 0 &&
	    !sizing_suits(container->config, &size, (uint64_t)memory->limit))
		return refuse_memory((uint64_t)memory->limit, size.memory, err);
	if (for_guest && update_guest(container, resources, err) < 0)
		return err_wrap(err, "change the limits in the guest");
	if (!container->cgroup_path)
		return 0;
	sizing_host(resources, container->settings, &size, &host);
	if (cgroup_update_owned(container, &host.resources, err) == 0)
		return 0;
	return !for_guest ? -1
			  : err_wrap(err, "the limits in the guest have changed, but not those of "
					  "the machine");
}

/* Moves what the host's cgroup has counted into the container's statistics. */
static void add_machine(struct moat_stats *stats, struct moat_stats *host)
{
	struct moat_machine_stats *machine = xcalloc(1, sizeof(*machine));

	machine->cpu = steal(host->cpu);
	machine->memory = steal(host->memory);
	machine->pids = steal(host->pids);
	machine->blkio = steal(host->blkio);
	stats->machine = machine;
}

struct moat_stats *vm_stats(struct container *container, struct err *err)
{
	_cleanup_free_ char *text = control_ask(container->state_fd, CONTROL_STATS, err);
	_cleanup_(moat_stats_free_pointer) struct moat_stats *stats = NULL, *host = NULL;

	if (!text)
		return NULL;
	stats = moat_stats_parse(text, strlen(text), "the guest's statistics", err);
	if (!stats)
		return NULL;
	if (stats->machine) {
		err_set(err, EPROTO, "take the guest's statistics: it tells of its machine");
		return NULL;
	}
	if (container->cgroup_path)
		host = cgroup_stats(container->cgroup_path, NULL);
	if (host)
		add_machine(stats, host);
	return steal(stats);
}

int vm_oom_watch(struct container *container, struct err *err)
{
	const struct control_request request = { .type = CONTROL_WATCH };
	_cleanup_fd_ int fd = control_connect(container->state_fd, CONTROL_PATIENCE_S, err);

	if (fd < 0 || control_send(fd, &request, NULL, 0, err) < 0 || control_reply(fd, err) < 0)
		return -1;
	return fd_steal(&fd);
}

int vm_processes(struct container *container, pid_t **pids, size_t *count, struct err *err)
{
	if (container->cgroup_path)
		return cgroup_processes(container->cgroup_path, pids, count, err);
	return record_processes(container->state_fd, pids, count, err);
}

struct moat_processes *vm_describe(struct container *container, struct err *err)
{
	_cleanup_free_ char *text = control_ask(container->state_fd, CONTROL_PROCESSES, err);

	if (!text)
		return NULL;
	return moat_processes_parse(text, strlen(text), "the guest's list of processes", err);
}
