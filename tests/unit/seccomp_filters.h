/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Filters of level plain's profiles: compiled from JSON, and asked what they answer. */
#pragma once

#include "sandbox/seccomp.h"
#include "sandbox/seccomp_private.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>

#define NATIVE AUDIT_ARCH_X86_64

/* A profile for getppid(2) alone, as JSON. */
#define ONE(action, more)                                                                          \
	"{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"getppid\"],"            \
	"\"action\":\"" action "\"" more "}],\"listenerPath\":\"/none\"}"

/* parse() - the profile out of a configuration that it is put into, since the parser takes whole
 * ones; it lasts until the next call. */
const struct oci_seccomp *parse(const char *json);

/* compile() - @cache: its directory, or NULL. */
struct seccomp_filter compile(const char *json, const char *cache);

/* run() - what the program answers to a call; answer() - to one with only this argument. */
uint32_t run(const struct seccomp_filter *filter, const struct seccomp_data *data);
uint32_t answer(const struct seccomp_filter *filter, uint32_t arch, uint32_t nr, uint64_t argument);

/* parsed() - what parse() has read last. */
const struct oci_seccomp *parsed(void);
