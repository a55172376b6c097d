/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The namespaces of linux.namespaces: those to be made and those to be joined (namespaces(7)). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct oci_linux;

#define NAMESPACE_KINDS 8

struct namespaces {
	uint64_t create;	  /* CLONE_NEW* of those to be made */
	uint64_t join;		  /* CLONE_NEW* of those to be joined */
	int fds[NAMESPACE_KINDS]; /* of those to be joined, by the table's index; -1 */
};

/*
 * namespaces_open() - read the list, open the paths and check their kinds. 0, or -1 with err set.
 */
int namespaces_open(const struct oci_linux *config, struct namespaces *namespaces, struct err *err);
void namespaces_close(struct namespaces *namespaces);

/* namespaces_join() - setns(2) to those in mask, the user namespace last. 0, or -1. */
int namespaces_join(const struct namespaces *namespaces, uint64_t mask, struct err *err);

/*
 * namespaces_need_broker() - whether a process must join some before init is made: a pid or user
 * namespace holds for children, and one of the host's cannot be joined from a new user namespace.
 */
bool namespaces_need_broker(const struct namespaces *namespaces);

/* namespaces_joined() - descriptor of the one of a kind (CLONE_NEW*) that is joined; -1. */
int namespaces_joined(const struct namespaces *namespaces, uint64_t kind);

/*
 * namespaces_have() - whether the container is in a namespace of the kind that is not the caller's.
 */
bool namespaces_have(const struct namespaces *namespaces, uint64_t kind);

/* namespaces_map_ids() - write linux.uidMappings and gidMappings for the new user namespace. */
int namespaces_map_ids(const struct oci_linux *config, int proc, pid_t pid, struct err *err);

/* namespaces_enter_time() - make a time namespace with the offsets asked for, and enter it. */
int namespaces_enter_time(const struct oci_linux *config, int proc, struct err *err);

/* namespaces_compare() - CLONE_NEW* of those in which a process is not with us. 0, or -1. */
int namespaces_compare(int proc, pid_t pid, uint64_t *different, struct err *err);
