/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine's parts before and after its processes run: what create collects for the monitor. */
#pragma once

#include "engine/engine.h"
#include "vm/disks.h"
#include "vm/sizing.h"
#include "vm/spawn.h"
#include "vm/streams.h"
#include "vm/template.h"
#include "vm/trees.h"

struct machine {
	const struct container *container;
	const struct create_options *options;
	struct machine_size size;
	const char *kernel_path, *initrd_path;
	char *cmdline;
	int kvm_fd, kernel_fd, initrd_fd, memory_fd;
	unsigned int nets; /* places for network interfaces */
	struct template template;
	struct trees trees;
	struct stdio stdio;
	struct disks disks;
	struct child vmm, fsd, diskd;
	int vmm_fd; /* control sockets: the monitor's ends */
	int fsd_fd;
	int agent_fd;	/* the other end of the guest's port VMM_PORT_CONTROL */
	int network_fd; /* the vmm's network namespace, an empty one; -1: not held */
	/* Of fsd and diskd, until they are started. */
	struct {
		int control_fd, fs_fd; /* fsd's, to the monitor and the vmm */
		struct disk_ends disks;
		uid_t uid; /* the vmm's; fsd stays who it is */
	} ends;
};

/*
 * machine_open() - choose the size and open what a machine is made from: everything that can be
 * found missing without starting a process. 0, or -1 with err set; machine_close() in both cases.
 */
int machine_open(struct machine *machine, const struct container *container,
		 const struct create_options *options, struct err *err);

/*
 * machine_launch() - in the monitor: memory, trees and streams, then the vmm, which runs the guest
 * when this returns. 0, or -1 with err set; machine_close() ends it.
 */
int machine_launch(struct machine *machine, struct err *err);

/*
 * machine_serve() - then: fsd, and diskd where there are disks. They serve when this returns, and
 * the guest may be asked for a container. 0, or -1 with err set; machine_close() ends them.
 */
int machine_serve(struct machine *machine, struct err *err);

/* machine_close_parts() - what the vmm was made from, which nobody needs when it is there. */
void machine_close_parts(struct machine *machine);

/* machine_close_ends() - what fsd and diskd have by now. */
void machine_close_ends(struct machine *machine);

/*
 * machine_add_port() - let the guest connect to a port, once, and give the vmm what that is joined
 * to. @flags: enum vmm_port_flags. Returns 0, or -1 with err set.
 */
int machine_add_port(struct machine *machine, uint32_t port, int fd, uint32_t flags,
		     struct err *err);

/* machine_add_ports() - those of the agent and of the workload's streams. 0, or -1 with err set. */
int machine_add_ports(struct machine *machine, struct err *err);

/* machine_remove_port() - forget one, and end what was joined to it. */
void machine_remove_port(struct machine *machine, uint32_t port);

/* machine_close() - end the processes, close everything. */
void machine_close(struct machine *machine);
