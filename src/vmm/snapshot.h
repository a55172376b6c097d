/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine in a file: a head that says all about it, then the pages of its memory that are not
 * zero. Everything in the head is checked before any of it is used, however the file got there.
 *
 *	struct snapshot_header
 *	the key, padded to 8 bytes
 *	struct x86_chips_state
 *	struct x86_vcpu_state, for each vCPU
 *	struct snapshot_device, for each place on the bus
 *	struct snapshot_run, for each run of pages
 *	zeroes up to a page; then the runs' pages, in their order
 */
#pragma once

#include "vmm/mmio.h"
#include "vmm/x86/vcpu_state.h"

#define SNAPSHOT_MAGIC	  "moat template 1"
#define SNAPSHOT_RUNS_MAX 65536u
#define SNAPSHOT_KEY_MAX  16384u

struct vmm;
struct vmm_config;

struct snapshot_header {
	char magic[16];
	uint64_t checksum; /* of the head, with this field zero */
	uint64_t head_size, file_size;
	uint64_t memory_size;
	uint64_t identity; /* x86_vcpu_identity() */
	uint32_t key_size, vcpus, devices, runs;
	uint32_t mapped;     /* the first of the runs, to be mapped instead of read */
	uint32_t prefaulted; /* the first of these, which the guest will look at all over */
};

struct snapshot_device {
	uint32_t type, queues;
	struct mmio_state mmio;
	struct virtqueue_state queue[DEVICE_QUEUES_MAX];
};

struct snapshot_run {
	uint64_t gpa, size; /* whole pages */
};

/* What a machine has to be for a snapshot to fit. */
struct snapshot_wanted {
	const void *key;
	size_t key_size;
	uint32_t vcpus, devices;
	const struct guest_memory *memory;
	uint64_t memory_size;
};

/* A head in memory: the pointers lead into it. */
struct snapshot {
	struct snapshot_header *header; /* to be freed */
	void *key;
	struct x86_chips_state *chips;
	struct x86_vcpu_state *vcpus;
	struct snapshot_device *devices;
	struct snapshot_run *runs;
};

/* snapshot_new() - an empty head of the right size: for snapshot_release(). */
void snapshot_new(struct snapshot *snapshot, const struct snapshot_wanted *wanted, uint32_t runs);

/* snapshot_seal() - what can be said when the rest is there: sizes, the magic, the checksum. */
void snapshot_seal(struct snapshot *snapshot);

/*
 * snapshot_read() - read and check a file's head: afterwards every size, count and address in it is
 * right for the machine wanted. Returns 0, or -1 with err set.
 */
int snapshot_read(struct snapshot *snapshot, int fd, const struct snapshot_wanted *wanted,
		  struct err *err);
void snapshot_release(struct snapshot *snapshot);

/*
 * snapshot_find_pages() - the runs of pages that are not zero.
 * @mapped: ranges that come first, whole, whatever is in them: they will be mapped privately from
 *          the file, so that machines share what they do not change. No other process sees them.
 *
 * Returns how many there are, *runs to be freed; 0 with err set where they are too many.
 */
uint32_t snapshot_find_pages(const struct guest_memory *memory, int memory_fd,
			     const struct snapshot_run *mapped, uint32_t count,
			     struct snapshot_run **runs, struct err *err);

/*
 * snapshot_write_pages() - the runs' pages to a file. snapshot_read_pages() - read or map them.
 * Each returns 0, or -1 with err set.
 */
int snapshot_write_pages(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
			 struct err *err);
int snapshot_read_pages(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
			struct err *err);

/*
 * mmio_save() - a device's registers and queues. -1 with err set where its driver broke it.
 * mmio_restore() - into a new device, but for what its own activate() does.
 * mmio_reactivate() - the latter. mmio_again() - signal all that could have been lost with the
 * eventfds: kicks, and interrupts that are not acknowledged.
 */
int mmio_save(const struct mmio_device *mmio, struct snapshot_device *state, struct err *err);
int mmio_restore(struct mmio_device *mmio, const struct snapshot_device *state, struct err *err);
int mmio_reactivate(struct mmio_device *mmio, struct err *err);
void mmio_again(struct mmio_device *mmio);

/* machine_save() - write a machine whose vCPUs no thread runs. Returns 0, or -1 with err set. */
int machine_save(struct vmm *vmm, const struct vmm_config *config, int fd, struct err *err);

/*
 * machine_restore() - the rest of setup for a machine that has its devices and no vCPU, from
 * config->template_fd. Returns 0, or -1 with err set: the machine, and the memory's contents, are
 * then of no use.
 */
int machine_restore(struct vmm *vmm, const struct vmm_config *config, struct err *err);
