/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Capability sets: read from names, applied with capset(2) and prctl(2). */
#include "sandbox/capabilities.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SETS 5

/* The sets that config.json names, in the order in which they are read. */
struct named_sets {
	char *const *names[SETS];
	size_t counts[SETS];
};

/* One name is mostly in several sets: what there is to say of it is said where it comes first. */
static bool is_first(const struct named_sets *sets, char *const *name)
{
	for (size_t i = 0; i < SETS; i++) {
		for (size_t k = 0; k < sets->counts[i]; k++) {
			if (&sets->names[i][k] == name)
				return true;
			if (str_eq(sets->names[i][k], *name))
				return false;
		}
	}
	return true;
}

static uint64_t read_set(const struct named_sets *sets, size_t which)
{
	uint64_t set = 0;

	for (size_t i = 0; i < sets->counts[which]; i++) {
		char *const *name = &sets->names[which][i];
		const char *wrong = NULL;
		cap_value_t value;

		if (cap_from_name(*name, &value) < 0 || value > 63)
			wrong = "no capability has that name (as CAP_NET_ADMIN is one)";
		else if (value >= cap_max_bits())
			wrong = "this kernel does not have it";
		else
			set |= 1ull << value;
		if (wrong && is_first(sets, name))
			log_warning("process.capabilities: '%.64s' is left out: %s", *name, wrong);
	}
	return set;
}

void capabilities_read(const struct oci_capabilities *config, struct capability_sets *sets)
{
	struct named_sets named;

	*sets = (struct capability_sets){ 0 };
	if (!config)
		return;
	named = (struct named_sets){
		{ config->bounding, config->effective, config->inheritable, config->permitted,
		  config->ambient },
		{ config->n_bounding, config->n_effective, config->n_inheritable,
		  config->n_permitted, config->n_ambient },
	};
	sets->bounding = read_set(&named, 0);
	sets->effective = read_set(&named, 1);
	sets->inheritable = read_set(&named, 2);
	sets->permitted = read_set(&named, 3);
	/* The kernel wants ambient ones inheritable and permitted; many configs list more. */
	sets->ambient = read_set(&named, 4) & sets->inheritable & sets->permitted;
}

void sandbox_warn(const struct oci_process *process)
{
	struct capability_sets sets;

	capabilities_read(process->capabilities, &sets);
}

void capabilities_limit(struct capability_sets *sets, uint64_t mask)
{
	sets->bounding &= mask;
	sets->effective &= mask;
	sets->inheritable &= mask;
	sets->permitted &= mask;
	sets->ambient &= mask;
}

int capabilities_bound(const struct capability_sets *sets, struct err *err)
{
	for (unsigned int i = 0; i < 64; i++) {
		if (sets->bounding & 1ull << i)
			continue;
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* beyond the kernel's last one */
			return 0;
		return err_set(err, errno, "drop capability %u from the bounding set", i);
	}
	return 0;
}

/* Names those that were asked for and that we do not have ourselves. */
static int refuse_missing(uint64_t wanted, int code, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	char names[512] = "";
	uint64_t missing;

	if (syscall(SYS_capget, &header, data) < 0)
		return err_set(err, errno, "read the capabilities");
	missing = wanted & ~(data[0].permitted | (uint64_t)data[1].permitted << 32);
	for (unsigned int i = 0; i < 64; i++) {
		char *name = missing & 1ull << i ? cap_to_name((cap_value_t)i) : NULL;
		size_t used = strlen(names);

		if (name)
			snprintf(names + used, sizeof(names) - used, " %s", name);
		cap_free(name);
	}
	if (!*names)
		return err_set(err, code, "set the capabilities");
	return err_set(err, code, "set the capabilities: we do not have%s ourselves", names);
}

int capabilities_apply(const struct capability_sets *sets, uint64_t extra, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	uint64_t permitted = sets->permitted | extra, effective = sets->effective | extra;
	struct __user_cap_data_struct data[2] = {
		{ (uint32_t)effective, (uint32_t)permitted, (uint32_t)sets->inheritable },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32),
		  (uint32_t)(sets->inheritable >> 32) },
	};

	if (syscall(SYS_capset, &header, data) < 0)
		return refuse_missing(permitted, errno, err);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_set(err, errno, "clear the ambient capabilities");
	for (unsigned int i = 0; i < 64; i++)
		if ((sets->ambient & 1ull << i) &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) < 0)
			return err_set(err, errno, "raise ambient capability %u", i);
	return 0;
}
