/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Seccomp filters out of config.json's linux.seccomp (runtime-spec, config-linux.md "Seccomp";
 * seccomp(2)). Compiling takes milliseconds, so that compiled filters are kept in a cache;
 * loading is one system call.
 */
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <linux/filter.h>
#include <stdbool.h>

struct oci_seccomp;

/* A program for the kernel. All zero: none. */
struct seccomp_filter {
	struct sock_filter *insns; /* owned */
	unsigned short count;
	unsigned int flags; /* SECCOMP_FILTER_FLAG_* */
	bool notify;	    /* has SCMP_ACT_NOTIFY: loading it makes a listener */
};

/*
 * seccomp_filter_compile() - make the program that a profile describes.
 * @cache: directory for compiled filters, made (0700) where it is missing; NULL: no cache. It is
 *         only used while it belongs to the caller's effective user and nobody else can write to
 *         it, and an entry only while it was made from exactly this profile. A cache that cannot
 *         be used costs time, never an error and never a different filter.
 *
 * System calls that the library does not know are skipped, as they cannot be made to match. Calls
 * newer than any that the profile names get ENOSYS where the default action refuses: the C
 * library then takes an older one, which EPERM would keep it from doing.
 * Returns 0 (the filter is to be freed), or -1 with err set.
 */
int seccomp_filter_compile(const struct oci_seccomp *seccomp, const char *cache,
			   struct seccomp_filter *filter, struct err *err);

/* seccomp_check_names() - 0, or -1 with err set where the library does not know a system call. */
int seccomp_check_names(const struct oci_seccomp *seccomp, struct err *err);

/* seccomp_filter_free() - release the program and make the filter all zero. */
void seccomp_filter_free(struct seccomp_filter *filter);

/*
 * seccomp_filter_load() - put the calling thread, and all that it starts, under the filter.
 * @listener: set to the descriptor of the listener (close-on-exec) where filter->notify, else -1.
 *
 * Needs no_new_privs or CAP_SYS_ADMIN. Makes the one system call seccomp(2) and allocates nothing.
 * Returns 0, or -1 with err set.
 */
int seccomp_filter_load(const struct seccomp_filter *filter, int *listener, struct err *err);

/*
 * seccomp_flag_supported() - whether the running kernel takes a flag out of oci_seccomp_flags.
 */
bool seccomp_flag_supported(const char *name);
