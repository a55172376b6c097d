/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's side of hostile guests: a machine with its three processes, in their jails where the
 * test runs as root and without sanitizers, and what plays the monitor, the networks and the
 * streams. Whatever of it does wrong fails the test.
 */
#pragma once

#include "disk/diskd.h"
#include "fs/fsd.h"
#include "vm/spawn.h"
#include "vmm/vmm.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define NETS	 2u
#define PORTS	 8u
#define SECTORS	 2048u
#define MEMORY	 (32ull << 20)
#define QUIET_MS 30000 /* the vmm answers within this, or it hangs */

/* What machines may have in common, and what they differ in. */
struct plan {
	const char *cmdline;
	unsigned int vcpus;
	const char *directory; /* NULL: one of its own */
	int image;	       /* -1: one of its own */
};

struct machine {
	const struct plan *plan;
	struct vmm_config config;
	struct fsd_config fs;
	struct diskd_config disk;
	struct child vmm, fsd, diskd;
	int control, trees, console; /* our ends */
	int nets[NETS], ports[PORTS];
	char directory[64];
	pid_t keeper; /* who removes it when keeper_fd is closed */
	int keeper_fd;
	int log; /* what all three write to standard error */
	bool ended;
	unsigned int packets, streams; /* that the guest brought about */
};

/* machine_open() - start it. machine_close() - it has ended: look at what it leaves. */
void machine_open(struct machine *machine, const struct plan *plan);
void machine_close(struct machine *machine);

/* machine_take_event() - the monitor's part. Returns false after the machine's last event. */
bool machine_take_event(struct machine *machine);
void machine_request(struct machine *machine, struct vmm_request message, int fd);

/* machine_check_growth() - the vmm takes no more memory for itself than is good. */
void machine_check_growth(const struct machine *machine);

/* machine_send() - packets to all networks: a guest that takes none has some waiting. */
void machine_send(struct machine *machine);
/* machine_exchange() - and streams: what comes is taken, and something said now and then. */
void machine_exchange(struct machine *machine);

/* machine_make_files() - a tree for machines with a plan that names it. machine_check_files() - it
 * is whole, and goes. */
void machine_make_files(struct machine *machine);
void machine_check_files(struct machine *machine);

/* machine_give_tree() - that tree to the file server, by the monitor's socket. */
void machine_give_tree(struct machine *machine);

/*
 * machine_start_child() - one of the machine's processes, with the descriptors given and the log:
 * in its jail, but where there is no root, without which there are no namespaces to be had.
 */
#define MACHINE_GIVEN 8u
void machine_start_child(struct machine *machine, enum role role, const int *given, size_t count);
void machine_show_log(const struct machine *machine);

uint64_t now_ms(void);
