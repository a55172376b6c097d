/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest memory: the memfd's two parts, below the MMIO hole and from 4 GiB on. */
#include "virtio/memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int map_slot(struct guest_memory *memory, int fd, uint64_t gpa, uint64_t size,
		    uint64_t offset, struct err *err)
{
	struct guest_slot *slot = &memory->slots[memory->count];
	void *host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			  (off_t)offset);

	if (host == MAP_FAILED)
		return err_set(err, errno, "map %llu MiB of guest memory",
			       (unsigned long long)size >> 20);
	/* A crash of ours must not write the guest's secrets to a core file. */
	madvise(host, size, MADV_DONTDUMP);
	*slot = (struct guest_slot){ .gpa = gpa, .size = size, .host = host, .fd_offset = offset };
	memory->count++;
	return 0;
}

int guest_memory_map(struct guest_memory *memory, int memory_fd, uint64_t size, struct err *err)
{
	uint64_t low = size < GUEST_MMIO_HOLE_START ? size : GUEST_MMIO_HOLE_START;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	memory->count = 0;
	if (!size || size % page)
		return err_set(err, EINVAL, "map %llu bytes of guest memory, not whole pages",
			       (unsigned long long)size);
	if (map_slot(memory, memory_fd, 0, low, 0, err) < 0)
		return -1;
	if (size > low &&
	    map_slot(memory, memory_fd, GUEST_MMIO_HOLE_END, size - low, low, err) < 0) {
		guest_memory_unmap(memory);
		return -1;
	}
	return 0;
}

void guest_memory_unmap(struct guest_memory *memory)
{
	for (size_t i = 0; i < memory->count; i++)
		munmap(memory->slots[i].host, memory->slots[i].size);
	memory->count = 0;
}

void *guest_range(const struct guest_memory *memory, uint64_t gpa, uint64_t size)
{
	if (!size)
		return NULL;
	for (size_t i = 0; i < memory->count; i++) {
		const struct guest_slot *slot = &memory->slots[i];

		/* Differences only: a sum could wrap around. */
		if (gpa >= slot->gpa && gpa - slot->gpa < slot->size &&
		    size <= slot->size - (gpa - slot->gpa))
			return slot->host + (gpa - slot->gpa);
	}
	return NULL;
}
