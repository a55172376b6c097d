/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process of a microVM gives up before it serves the guest. A role that is taken over has
 * its descriptors, the system calls of its filter, and nothing else.
 */
#pragma once

#include "base/err.h"

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum role { ROLE_MONITOR, ROLE_VMM, ROLE_FSD, ROLE_DISKD, ROLE_STANDIN, ROLE_VICTIM, ROLES };

extern const char *const role_names[ROLES];

/* What a role keeps of the host, and so what whoever takes it over has. */
struct role_reach {
	uint64_t capabilities; /* bits of those that it keeps */
	const char *reach;
};

extern const struct role_reach role_reach[ROLES];

/*
 * Ids for processes that own nothing: the monitor's pid above this, so each machine has its own.
 * It lies just beyond the ranges that level sandbox takes its containers' ids from by default,
 * which themselves begin where systemd's end.
 */
#define JAIL_UID_BASE	0x90000000u
#define JAIL_UID_SECOND (1u << 22) /* above that, as pids are smaller: diskd's */
/* An ordinary user's processes have no id but the user's own. */
#define JAIL_UID_OWN UINT32_MAX

/* Of a role in its jail, beside those of mounts and of pids: empty ones. */
#define JAIL_NAMESPACES (CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define JAIL_BORN_IN	(-1)

struct jail {
	enum role role;
	uid_t uid;	       /* also the gid; JAIL_UID_OWN: stays who it is */
	uint64_t capabilities; /* bits of those to keep, permitted and effective; 0: none */
	/*
	 * Whose JAIL_NAMESPACES it gets: 0: some of its own; a pidfd of a process that has such:
	 * the same ones, if it can be looked at; JAIL_BORN_IN: it was made in them, by spawn().
	 */
	int namespaces_of;
};

/*
 * jail_enter() - leave the host: an empty, read-only root; empty network, IPC, UTS and cgroup
 * namespaces; the uid; the capabilities; no_new_privs; no core dumps, not to be traced. The process
 * has one thread, is a child of the monitor, and dies with it.
 *
 * Returns 0, or -1 with err set.
 */
int jail_enter(const struct jail *jail, struct err *err);

/*
 * jail_leave_mounts() - a mount namespace of the caller's own: what is mounted there stays there.
 * Returns 0, or -1 with err set.
 */
int jail_leave_mounts(struct err *err);

/*
 * jail_change_root() - after that: make a detached mount the root of the namespace, which has
 * nothing else then. Returns 0, or -1 with err set.
 */
int jail_change_root(int root, struct err *err);

/*
 * jail_restrict() - what a role gives up that stays on the host (the monitor, and a process that
 * stands for another): capabilities and new privileges. Returns 0, or -1 with err set.
 */
int jail_restrict(enum role role, uint64_t capabilities, struct err *err);

/*
 * filter_load() - the seccomp filter of a role, on all its threads, the last step: any other call
 * ends the process.
 * Returns 0, or -1 with err set.
 */
int filter_load(enum role role, struct err *err);

/* One line of a role's filter, for `moat doctor` and the tests. */
struct filter_line {
	int call;	   /* number of the system call */
	const char *why;   /* what the role does with it, and which arguments are let through */
	uint8_t arguments; /* how many are checked */
};

/* filter_line() - line `index` of a role's filter; a call may have several. NULL at the end. */
const struct filter_line *filter_line(enum role role, size_t index);
