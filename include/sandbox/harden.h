/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What level sandbox is beyond plain. First a config.json is made into one that asks for less
 * (harden_config()), then the engine does what no config can ask for (struct hardening).
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct moat_settings;
struct oci_capabilities;
struct oci_config;
struct oci_process;
struct oci_seccomp;

/* How many ids a container's user namespace maps. */
#define HARDEN_IDS 65536u

/* What the engine adds. Processes that join later get the same. */
struct hardening {
	struct oci_seccomp *ceiling;	   /* a filter beside that of the config; owned */
	uint64_t capabilities;		   /* bit N: a process may have capability N */
	uint32_t id_base;		   /* files are mapped, from here on; 0: as they are */
	bool scope_sockets, scope_signals; /* namespaces do not: Landlock has to */
};

/*
 * harden_config() - edit a container's config in place.
 *
 * Refuses what the level cannot give: the host's namespaces and devices, capabilities beyond the
 * ceiling, and mappings of the host's root, unless settings allow them. Returns 0, or -1 with err
 * set to what it is and what would allow it.
 */
int harden_config(struct oci_config *config, const struct moat_settings *settings, struct err *err);

/* harden_needs_ids() - whether it is to get a range of ids: it has no user namespace of its own. */
bool harden_needs_ids(const struct oci_config *config);

/*
 * harden_map_ids() - give it a user namespace with HARDEN_IDS ids, which on the host begin at base.
 */
void harden_map_ids(struct oci_config *config, uint32_t base);

/* harden_process() - whether a process, of exec for one, asks for no more than it may. 0, or -1. */
int harden_process(const struct oci_process *process, const struct moat_settings *settings,
		   struct err *err);

/*
 * hardening_init() - what the engine has to do for a container.
 * @id_base: that of harden_map_ids(); 0 where the config has ids of its own.
 */
void hardening_init(struct hardening *hardening, const struct oci_config *config,
		    const struct moat_settings *settings, uint32_t id_base);
void hardening_free(struct hardening *hardening);
