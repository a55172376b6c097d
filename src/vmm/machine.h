/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine: what vmm.h's opaque struct is, and what its files ask of each other. The main thread
 * runs the loop, which owns the devices and all that is not said to be shared; each vCPU has a
 * thread of its own.
 */
#pragma once

#include "vmm/calls.h"
#include "vmm/external.h"
#include "vmm/kvm.h"
#include "vmm/mmio.h"
#include "vmm/net.h"
#include "vmm/serial.h"
#include "vmm/snapshot.h"
#include "vmm/vmm.h"

/* The file system, the socket, random numbers and the balloon, and those that are counted. */
#define MACHINE_DEVICES_MAX (4u + VMM_DISKS_MAX + VMM_NETS_MAX)
#define MACHINE_LINES	    24u /* of the interrupt controller */

_Static_assert(MMIO_GSI_FIRST + MACHINE_DEVICES_MAX <= MACHINE_LINES, "each has a line");

struct vcpu {
	struct vmm *vmm;
	int fd;
	struct kvm_run *run;
	pid_t tid; /* of its thread, in the vmm's pid namespace; 0: there is none */
};

/* RUN_WAIT: the threads are there, the guest has not begun. */
enum run_state { RUN_WAIT, RUN_GO, RUN_PAUSE, RUN_STOP };

struct vmm {
	struct guest_memory memory;
	struct kvm kvm;
	struct loop loop;
	struct calls calls;
	struct source control;
	int acknowledged; /* an eventfd that nobody looks at; -1: there is none */

	uint32_t *registers; /* of all devices, a page each, as the guest reads them */
	struct mmio_device mmio[MACHINE_DEVICES_MAX];
	unsigned int devices;
	struct external_device fs, disks[VMM_DISKS_MAX];
	unsigned int disk_count;
	struct device rng, balloon;
	struct device *vsock;
	struct net_device net[VMM_NETS_MAX];
	unsigned int nets, first_net; /* their number; the first one's on the bus */
	struct serial *serial;	      /* NULL: no console */
	/*
	 * What stays as it is in the kernel's file: padding is mapped from there, and both are
	 * from a template.
	 */
	struct snapshot_run padding, constants;
	bool making; /* vmm_make_template() is at it */
	bool again;  /* signals may have been lost: mmio_again() is due */

	struct vcpu vcpus[VMM_VCPUS_MAX];
	unsigned int vcpu_count;
	uint8_t *stacks;   /* of their threads */
	pid_t pid;	   /* of the process, as the threads' signals are sent to */
	uint64_t identity; /* x86_vcpu_identity() of the first */

	/* Shared with the vCPUs: what they are to do, and the number of the last pause. */
	pthread_mutex_t run_lock;
	pthread_cond_t run_changed;
	enum run_state run;
	uint64_t pause;
	unsigned int waiting, stopped; /* threads that have got so far */
	unsigned int parked;	       /* the loop's: vCPUs that stand still for this pause */

	/* Why the machine ended: the first reason counts. */
	enum vmm_end end; /* 0: it runs */
	char end_text[sizeof(((struct vmm_event *)0)->text)];
};

/* machine_end() - end the machine, on the loop's thread. The text is for the user. */
void machine_end(struct vmm *vmm, enum vmm_end end, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * machine_connect() - connect the doorbells and the interrupt of the device at that place on the
 * bus with KVM. Returns 0, or -1 with err set.
 */
int machine_connect(struct vmm *vmm, unsigned int index, struct err *err);

/*
 * machine_io() - a vCPU's access to I/O ports: count values of size bytes, one after the other.
 * Returns false where it asks for the machine's end.
 */
bool machine_io(struct vmm *vmm, uint16_t port, uint8_t *data, uint32_t size, uint32_t count,
		bool write);

/* machine_mmio() - a vCPU's access to an address that is not memory, at most 8 bytes. */
void machine_mmio(struct vmm *vmm, uint64_t address, uint8_t *data, uint32_t size, bool write);

/*
 * vcpus_create() - all vCPUs, the first to enter the kernel at entry; 0: none is to enter anything.
 * Returns 0, or -1 with err set.
 */
int vcpus_create(struct vmm *vmm, unsigned int count, uint64_t entry, struct err *err);
/*
 * vcpus_start() - a thread for each, which waits for its first command and has by then made every
 * system call that a thread begins with. Returns 0, or -1 with err set.
 */
int vcpus_start(struct vmm *vmm, struct err *err);
/* vcpus_command() - have every vCPU go on, stand still, or never run again. */
void vcpus_command(struct vmm *vmm, enum run_state run);
/*
 * vcpus_wait_stopped() - wait until no vCPU runs any more, after calls_close() and RUN_STOP. The
 * threads stay, asleep: how the C library ends one would take calls that the jail forbids.
 */
void vcpus_wait_stopped(struct vmm *vmm);
/* vcpus_close() - give back what vcpus_create() made, where there are no threads. */
void vcpus_close(struct vmm *vmm);

/* control_init() - listen to the monitor. fd stays the caller's. Returns 0, or -1 with err set. */
int control_init(struct vmm *vmm, int fd, struct err *err);
/* control_catch_up() - serve what the monitor has asked for until now. */
void control_catch_up(struct vmm *vmm);
/* control_event() - tell the monitor. One that is gone is found by its socket's end. */
void control_event(struct vmm *vmm, enum vmm_event_type type, uint32_t port);
