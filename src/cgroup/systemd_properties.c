/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of linux.resources as properties of a unit (systemd.resource-control(5)). What systemd
 * has no property for is only in the cgroup's files, which are delegated.
 */
#include "cgroup/systemd_properties.h"

#include "base/mem.h"
#include "base/str.h"
#include "cgroup/convert.h"
#include "oci/config.h"

#include <stdio.h>
#include <string.h>

#define CPUS_MAX       8192
#define USEC_PER_SEC   1000000ull
#define QUOTA_STEP     10000ull /* systemd keeps whole percents */
#define DEFAULT_PERIOD 100000ull

void unit_properties_free(struct unit_properties *properties)
{
	for (size_t i = 0; i < properties->count; i++) {
		free(properties->items[i].name);
		free(properties->items[i].bytes);
	}
	free(properties->items);
	*properties = (struct unit_properties){ 0 };
}

static struct unit_property *add(struct unit_properties *properties, const char *name)
{
	struct unit_property *p;

	properties->items =
		xrealloc(properties->items, properties->count + 1, sizeof(*properties->items));
	p = &properties->items[properties->count++];
	*p = (struct unit_property){ .name = xstrdup(name) };
	return p;
}

void unit_add_number(struct unit_properties *properties, const char *name, char type,
		     uint64_t number)
{
	struct unit_property *p = add(properties, name);

	p->signature[0] = type;
	p->number = number;
}

void unit_add_string(struct unit_properties *properties, const char *name, const char *text)
{
	struct unit_property *p = add(properties, name);

	p->signature[0] = 's';
	p->bytes = xstrdup(text);
}

/* "0-3,7" as bits, the lowest first. */
static int add_set(struct unit_properties *properties, const char *name, const char *list,
		   struct err *err)
{
	unsigned long bits[CPUS_MAX / 8 / sizeof(unsigned long)];
	struct unit_property *p;
	size_t size = sizeof(bits);

	if (str_to_set(list, bits, CPUS_MAX) < 0)
		return err_set(err, errno, "read the list '%.64s' for %s", list, name);
	while (size > 1 && ((const char *)bits)[size - 1] == 0)
		size--;
	p = add(properties, name);
	memcpy(p->signature, "ay", 3);
	p->bytes = xcalloc(1, size);
	memcpy(p->bytes, bits, size); /* x86: the lowest byte of a word is the first */
	p->size = size;
	return 0;
}

static void add_limit(struct unit_properties *properties, const char *name, int64_t value)
{
	unit_add_number(properties, name, 't', value < 0 ? UINT64_MAX : (uint64_t)value);
}

static void add_memory(struct unit_properties *properties, const struct oci_memory *memory)
{
	if (memory->limit)
		add_limit(properties, "MemoryMax", memory->limit);
	if (memory->reservation)
		add_limit(properties, "MemoryLow", memory->reservation);
	if (memory->swap < 0)
		add_limit(properties, "MemorySwapMax", -1);
	else if (memory->swap > 0 && memory->limit > 0 && memory->swap >= memory->limit)
		add_limit(properties, "MemorySwapMax", memory->swap - memory->limit);
}

static void add_quota(struct unit_properties *properties, int64_t quota, uint64_t period)
{
	uint64_t per_second = UINT64_MAX;

	if (!period)
		period = DEFAULT_PERIOD;
	unit_add_number(properties, "CPUQuotaPeriodUSec", 't', period);
	if (quota > 0 && (uint64_t)quota < UINT64_MAX / USEC_PER_SEC) {
		per_second = (uint64_t)quota * USEC_PER_SEC / period;
		per_second = (per_second + QUOTA_STEP - 1) / QUOTA_STEP * QUOTA_STEP;
	}
	unit_add_number(properties, "CPUQuotaPerSecUSec", 't', per_second);
}

static int add_cpu(struct unit_properties *properties, const struct oci_cpu *cpu, struct err *err)
{
	if (cpu->has_idle && cpu->idle)
		unit_add_number(properties, "CPUWeight", 't', 0);
	else if (cpu->shares)
		unit_add_number(properties, "CPUWeight", 't', cpu_weight(cpu->shares));
	if (cpu->quota)
		add_quota(properties, cpu->quota, cpu->period);
	if (cpu->cpus && *cpu->cpus && add_set(properties, "AllowedCPUs", cpu->cpus, err) < 0)
		return -1;
	if (cpu->mems && *cpu->mems)
		return add_set(properties, "AllowedMemoryNodes", cpu->mems, err);
	return 0;
}

/* Files of cgroup v2 that are one number or "max". */
static const struct {
	const char *file, *property;
} unified[] = {
	{ "cpu.weight", "CPUWeight" },		{ "io.weight", "IOWeight" },
	{ "memory.high", "MemoryHigh" },	{ "memory.low", "MemoryLow" },
	{ "memory.max", "MemoryMax" },		{ "memory.min", "MemoryMin" },
	{ "memory.swap.max", "MemorySwapMax" }, { "pids.max", "TasksMax" },
};

/* "QUOTA PERIOD" */
static void add_cpu_max(struct unit_properties *properties, const char *value)
{
	_cleanup_free_ char *quota = xstrdup(value);
	char *period = strchr(quota, ' ');
	uint64_t numbers[2] = { 0, 0 };
	bool none;

	if (period)
		*period++ = '\0';
	none = str_eq(quota, "max");
	if ((!none && str_to_u64(quota, INT64_MAX, &numbers[0]) < 0) ||
	    (period && str_to_u64(period, UINT32_MAX, &numbers[1]) < 0))
		return; /* the file refuses it, and says so */
	add_quota(properties, none ? -1 : (int64_t)numbers[0], numbers[1]);
}

static int add_unified(struct unit_properties *properties, const struct oci_pair *pair,
		       struct err *err)
{
	uint64_t number = UINT64_MAX;

	if (str_eq(pair->key, "cpu.max"))
		return add_cpu_max(properties, pair->value), 0;
	if (str_eq(pair->key, "cpuset.cpus"))
		return add_set(properties, "AllowedCPUs", pair->value, err);
	if (str_eq(pair->key, "cpuset.mems"))
		return add_set(properties, "AllowedMemoryNodes", pair->value, err);
	for (size_t i = 0; i < ARRAY_LEN(unified); i++)
		if (str_eq(unified[i].file, pair->key) &&
		    (str_eq(pair->value, "max") ||
		     str_to_u64(pair->value, UINT64_MAX, &number) == 0))
			unit_add_number(properties, unified[i].property, 't', number);
	return 0;
}

int unit_add_limits(struct unit_properties *properties, const struct oci_linux_resources *r,
		    struct err *err)
{
	if (!r)
		return 0;
	if (r->memory)
		add_memory(properties, r->memory);
	if (r->cpu && add_cpu(properties, r->cpu, err) < 0)
		return -1;
	if (r->pids && r->pids->has_limit)
		add_limit(properties, "TasksMax", r->pids->limit > 0 ? r->pids->limit : -1);
	if (r->block_io && r->block_io->weight)
		unit_add_number(properties, "IOWeight", 't', io_weight(r->block_io->weight));
	for (size_t i = 0; i < r->n_unified; i++)
		if (add_unified(properties, &r->unified[i], err) < 0)
			return -1;
	return 0;
}
