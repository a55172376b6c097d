/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtual machine monitor: one process that owns /dev/kvm's descriptors and the virtio devices
 * that do not need files. It opens nothing: every descriptor comes from the monitor before its jail
 * closes, or over the control socket later.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VMM_DISKS_MAX	    7u /* /dev/vda and so on in the guest: as lines of interrupts are left */
#define VMM_DISK_QUEUES_MAX 4u

struct vmm_config {
	int kvm_fd;	      /* /dev/kvm */
	int memory_fd;	      /* guest_memory_create(): guest RAM, shared with fsd */
	uint64_t memory_size; /* bytes, a multiple of 2 MiB */
	unsigned int vcpus;   /* 1 to VMM_VCPUS_MAX */
	int kernel_fd;	      /* vmlinux (ELF with the kernel's 64-bit entry) or bzImage */
	int initrd_fd;	      /* the agent's initramfs; -1: none */
	const char *kernel_name, *initrd_name; /* for messages; NULL: "the kernel image", ... */
	/*
	 * The caller's part. In front of it the VMM puts what its machine asks for (how to reset
	 * it, that a panic is to, its timers, its console or that there is none), behind it its
	 * devices.
	 */
	const char *cmdline;
	int control_fd; /* SOCK_SEQPACKET to the monitor: struct vmm_request, vmm_event */
	int fs_fd;	/* SOCK_SEQPACKET to fsd: struct fs_queue_setup; -1: no file server */
	struct vmm_disk {
		int fd[VMM_DISK_QUEUES_MAX]; /* the same to diskd, one for each of its: */
		unsigned int queues;
		bool read_only;
		uint64_t sectors;    /* of 512 bytes */
		uint32_t block_size; /* bytes; what is shorter is not read or written */
	} disk[VMM_DISKS_MAX];
	unsigned int disks;
	int serial_fd; /* where the serial console's output goes; -1: no console at all */
	/*
	 * Give nothing back to the host that the guest does not use: huge pages that were set aside
	 * might not be had again.
	 */
	bool keep_memory;
	unsigned int nets; /* places for network interfaces, 0 to VMM_NETS_MAX */
	/* The most pairs of queues that one of them may have, 1 to VMM_NET_PAIRS_MAX. */
	unsigned int net_pairs;
	/*
	 * Templates, machines that have booted: what one has to have been made with to fit this
	 * machine, byte for byte; NULL: none is made or used. And one to start from, or -1: not
	 * the caller's word but the file's decides whether it fits, and is whole.
	 */
	const void *template_key;
	size_t template_key_size;
	int template_fd;
	uint32_t boot_patience; /* seconds to boot while one is made; 0: as many as that may take */
};

#define VMM_VCPUS_MAX 32

/*
 * Which interfaces there are is known when the container is started, after the guest has booted.
 * So each has a place in the machine from the beginning, which is empty (a virtio-mmio device of
 * type 0) until VMM_REQUEST_NET_ADD fills it; then the guest's agent has the kernel look again, at
 * the platform device virtio-mmio.(VMM_NET_ID + the place's number).
 */
#define VMM_NETS_MAX	  8u
#define VMM_NET_ID	  32u
#define VMM_NET_PAIRS_MAX 4u

/*
 * Lists of host ports are the monitor's; the guest connects to these well-known ones first.
 * Every further stream has a port that the monitor drew and told the agent of: the workload may
 * connect, too, and is not to guess it.
 */
#define VMM_PORT_CONTROL 1u  /* ttrpc: the agent serves, the monitor asks */
#define VMM_PORT_FIRST	 16u /* the first port for streams */

/* In the environment of init, where the guest that boots is to be saved as a template. */
#define VMM_TIDY "moat_tidy"

/* From the monitor to the vmm, with descriptors where said. */
enum vmm_request_type {
	/*
	 * A port and the descriptor (one, attached) that a guest's connection to it is joined to.
	 * One connection a port: when it has ended the entry is gone. What the descriptor can do
	 * (read, write, both) decides what the stream can. Not a listening socket.
	 */
	VMM_REQUEST_PORT_ADD = 1,
	VMM_REQUEST_PORT_REMOVE,
	VMM_REQUEST_PAUSE,  /* answered by VMM_EVENT_PAUSED */
	VMM_REQUEST_RESUME, /* answered by VMM_EVENT_RESUMED */
	VMM_REQUEST_STOP,   /* end the machine at once */
	/*
	 * A network interface for place `port`, with its `mac`. The descriptor attached is a tap
	 * with virtio-net headers of 12 bytes, little-endian, and O_NONBLOCK; or there are several,
	 * a pair of queues each, of which only the first is attached to the tap. Answered by
	 * VMM_EVENT_NET_ADDED.
	 */
	VMM_REQUEST_NET_ADD,
};

/* What a stream's descriptor is; the vmm cannot ask, its filter has no such calls. */
enum vmm_port_flags {
	VMM_PORT_READ = 1 << 0,	    /* its bytes go to the guest */
	VMM_PORT_WRITE = 1 << 1,    /* the guest's bytes go to it */
	VMM_PORT_SOCKET = 1 << 2,   /* a socket: used with MSG_DONTWAIT, shut down by halves */
	VMM_PORT_BLOCKING = 1 << 3, /* O_NONBLOCK is not set (and it is no socket) */
};

struct vmm_request {
	uint32_t type;
	uint32_t port;
	uint32_t flags; /* VMM_REQUEST_PORT_ADD: enum vmm_port_flags */
	uint8_t mac[6];
};

/* From the vmm to the monitor. Text is printable ASCII, NUL-terminated. */
enum vmm_event_type {
	VMM_EVENT_PAUSED = 1,
	VMM_EVENT_RESUMED,
	VMM_EVENT_PORT_CLOSED, /* the connection on `port` has ended, all its data delivered */
	VMM_EVENT_ENDED,       /* the last event: why the machine ended (enum vmm_end, text) */
	VMM_EVENT_NET_ADDED,   /* place `port` is filled; text: why it could not be, else empty */
};

enum vmm_end {
	VMM_END_RESET = 1, /* the guest rebooted or powered off (the agent's normal end) */
	/*
	 * A triple fault. A kernel that panics resets the machine: it is VMM_END_RESET without
	 * the agent having said good-bye to the monitor.
	 */
	VMM_END_PANIC,
	VMM_END_STOPPED, /* VMM_REQUEST_STOP, or the control socket closed */
	VMM_END_KVM,	 /* KVM could not go on: KVM_EXIT_INTERNAL_ERROR, FAIL_ENTRY */
	VMM_END_ERROR,	 /* the vmm itself met an error; text says which */
};

struct vmm_event {
	uint32_t type;
	uint32_t port;
	uint32_t end;
	char text[500];
};

/*
 * vmm_setup() - create the VM, load the kernel, make the devices: everything that needs calls which
 * the jail forbids later. vmm_start() - the vCPUs' threads, which wait; they are made behind the
 * jail's walls (so that they are in it) and before its filter (so that it need not know how).
 * vmm_run() - let the vCPUs go and serve until the machine ends; the reason goes to the monitor as
 * VMM_EVENT_ENDED.
 *
 * vmm_setup() returns a machine, or NULL with err set (the message is for the user: it says where
 * the kernel image is broken, or what KVM refused). vmm_start() and vmm_run() return 0, or -1 with
 * err set. From vmm_start() on the machine ends with its process, which has no other use. The
 * configuration's descriptors stay the caller's.
 */
struct vmm;
struct vmm *vmm_setup(const struct vmm_config *config, struct err *err);
int vmm_start(struct vmm *vmm, struct err *err);
int vmm_run(struct vmm *vmm, struct err *err);

/*
 * vmm_make_template() - between start and run, before the filter: boot the guest until it first
 * speaks, and write the machine to an empty file. It goes on in vmm_run(), whether this succeeded
 * or not. Returns 0, or -1 with err set.
 *
 * vmm_is_template() - whether what it wrote is one, and whole.
 */
int vmm_make_template(struct vmm *vmm, const struct vmm_config *config, int fd, struct err *err);
bool vmm_is_template(int fd);
