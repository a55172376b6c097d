/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory as host processes see it: slots of guest physical addresses mapped here. Every
 * address that a guest gives is checked as a whole range against one slot.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUEST_MEMORY_SLOTS_MAX 4u

/* RAM is one memfd: guest physical 0 up to the hole, the rest from 4 GiB on. */
#define GUEST_MMIO_HOLE_START 0xc0000000ull
#define GUEST_MMIO_HOLE_END   0x100000000ull

struct guest_slot {
	uint64_t gpa;
	uint64_t size;	    /* bytes */
	uint8_t *host;	    /* where it is mapped in this process */
	uint64_t fd_offset; /* where it lies in the memfd */
};

struct guest_memory {
	struct guest_slot slots[GUEST_MEMORY_SLOTS_MAX];
	size_t count;
};

/*
 * guest_memory_create() - a file of size bytes in memory, to be a machine's RAM. Where the caller
 * may mount a tmpfs it can have huge pages, which take a third off the time to boot; else it is a
 * memfd. It is not sealed (that of a tmpfs cannot be): a process that has it and shrinks it ends
 * the machine that it serves, and no other.
 * Returns a descriptor, or -1 with err set.
 */
int guest_memory_create(uint64_t size, struct err *err);

/* guest_memory_clear() - make all of it zero again; nobody may have it mapped. 0, or -1. */
int guest_memory_clear(int memory_fd, struct err *err);

/*
 * guest_memory_create_huge() - the same of huge pages of 2 MiB that the host has set aside; size is
 * a multiple of that. They are taken at once, so that the guest never meets their lack.
 */
int guest_memory_create_huge(uint64_t size, struct err *err);

/*
 * guest_memory_map() - map a memfd of size bytes as guest RAM, shared. Pages that nobody has
 * written take no memory; the descriptor stays the caller's and may be closed.
 * Returns 0, or -1 with err set.
 */
int guest_memory_map(struct guest_memory *memory, int memory_fd, uint64_t size, struct err *err);

/*
 * huge_pages_hold() - for processes that map a guest's memory, around whatever else they map that
 * could have huge pages. khugepaged would make a whole one of each that the guest has given back in
 * part. It looks at a process only if that has mapped what may become one; where nothing may at
 * that time, it never does, and page faults give huge pages afterwards all the same. Returns
 * whether huge_pages_release() is to let them be again: an operator may have forbidden them.
 */
bool huge_pages_hold(void);
void huge_pages_release(bool held);

/* guest_memory_unmap() - nothing may use the memory any more. */
void guest_memory_unmap(struct guest_memory *memory);

/*
 * guest_range() - the host address of [gpa, gpa + size).
 * Returns NULL where it is not wholly inside one slot; size 0 is refused too.
 */
void *guest_range(const struct guest_memory *memory, uint64_t gpa, uint64_t size);
