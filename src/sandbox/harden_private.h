/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of level sandbox share; the interface is sandbox/harden.h. */
#pragma once

#include "sandbox/harden.h"

#include <sys/types.h>

/* harden_allows() - whether the operator's file lists a permission (enum moat_permissions). */
bool harden_allows(const struct moat_settings *settings, const char *permission);

/* harden_refuse() - the parts of harden_config(): look, and change nothing. 0, or -1. */
int harden_refuse(const struct oci_config *config, const struct moat_settings *settings,
		  struct err *err);

/* harden_capabilities() - all that a process may have. */
uint64_t harden_capabilities(const struct moat_settings *settings);

/* harden_is_hosts() - whether a namespace's path leads to the one that the caller is in. */
bool harden_is_hosts(const char *kind, const char *path);

/* harden_calls() - the level's own filter, to be released with harden_calls_free(). */
struct oci_seccomp *harden_calls(const struct moat_settings *settings);
void harden_calls_free(struct oci_seccomp *profile);

/*
 * wall_enter() - put the thread, and all that it starts, under Landlock; it needs no_new_privs.
 * Returns 0, also where the kernel has no Landlock; -1 with err set.
 */
int wall_enter(const struct hardening *hardening, struct err *err);

/*
 * wall_core_make(), wall_core_join() - core scheduling: no hardware thread of a core runs anything
 * but this container while one runs this container; for its first process and for later ones.
 */
int wall_core_make(struct err *err);
int wall_core_join(pid_t pid, struct err *err);
