/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Capability sets: read from names, applied with capset(2) and prctl(2). */
#include "sandbox/capabilities.h"

#include "base/log.h"
#include "base/mem.h"
#include "oci/config.h"
#include "sandbox/sandbox.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t read_set(char *const *names, size_t count, uint64_t *warned)
{
	uint64_t set = 0;

	for (size_t i = 0; i < count; i++) {
		cap_value_t value;

		if (cap_from_name(names[i], &value) < 0 || value > 63) {
			log_warning("process.capabilities: unknown capability '%.64s' is left out",
				    names[i]);
		} else if (prctl(PR_CAPBSET_READ, value, 0, 0, 0) < 0) {
			if (!(*warned & 1ull << value))
				log_warning("process.capabilities: this kernel has no %.64s: it is "
					    "left out",
					    names[i]);
			*warned |= 1ull << value;
		} else {
			set |= 1ull << value;
		}
	}
	return set;
}

void capabilities_read(const struct oci_capabilities *config, struct capability_sets *sets)
{
	uint64_t warned = 0;

	*sets = (struct capability_sets){ 0 };
	if (!config)
		return;
	sets->bounding = read_set(config->bounding, config->n_bounding, &warned);
	sets->effective = read_set(config->effective, config->n_effective, &warned);
	sets->inheritable = read_set(config->inheritable, config->n_inheritable, &warned);
	sets->permitted = read_set(config->permitted, config->n_permitted, &warned);
	/* The kernel wants ambient ones inheritable and permitted; many configs list more. */
	sets->ambient = read_set(config->ambient, config->n_ambient, &warned) & sets->inheritable &
			sets->permitted;
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
