/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest memory: the memfd's two parts, below the MMIO hole and from 4 GiB on. */
#include "virtio/memory.h"

#include "base/fd.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#define HUGE_PAGE (2ull << 20)

/*
 * Huge pages spare a booting guest ten thousand faults, and a running one TLB misses. Those of a
 * memfd are the administrator's to allow (shmem_enabled, "never" by default); a tmpfs has its own
 * option. This one is mounted nowhere: it lives as long as the file does.
 */
static int create_on_tmpfs(void)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC), mount = -1;

	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "huge", "advise", 0) < 0 ||
	    fsconfig(context, FSCONFIG_SET_STRING, "size", "100%", 0) < 0 ||
	    fsconfig(context, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
	return mount < 0 ? -1 : openat(mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int guest_memory_create(uint64_t size, struct err *err)
{
	_cleanup_fd_ int fd = create_on_tmpfs();

	if (fd < 0)
		fd = memfd_create("guest", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return err_set(err, errno, "create %llu MiB of guest memory",
			       (unsigned long long)size >> 20);
	return fd_steal(&fd);
}

int guest_memory_create_huge(uint64_t size, struct err *err)
{
	_cleanup_fd_ int fd = memfd_create("guest", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
	void *map = MAP_FAILED;

	/* The pages that a shared mapping sets aside stay the file's when it has gone. */
	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED) {
		munmap(map, size);
		return fd_steal(&fd);
	}
	err_set(err, errno, "take %llu MiB of huge pages for guest memory",
		(unsigned long long)size >> 20);
	return err_hint(err, "set more aside in /proc/sys/vm/nr_hugepages, or remove \"hugepages\" "
			     "from /etc/moat/moat.json");
}

int guest_memory_clear(int memory_fd, struct err *err)
{
	off_t size = lseek(memory_fd, 0, SEEK_END);

	if (size < 0 || ftruncate(memory_fd, 0) < 0 || ftruncate(memory_fd, size) < 0)
		return err_set(err, errno, "clear the guest's memory");
	return 0;
}

/* Maps at an address that is a multiple of HUGE_PAGE, as the guest's is: KVM then maps alike. */
static void *map_aligned(int fd, uint64_t size, uint64_t offset)
{
	uint8_t *room = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *start;
	uint64_t before;

	if (room == MAP_FAILED)
		return MAP_FAILED;
	before = -(uintptr_t)room % HUGE_PAGE;
	start = mmap(room + before, size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)offset);
	if (start == MAP_FAILED) {
		munmap(room, size + HUGE_PAGE);
		return MAP_FAILED;
	}
	if (before)
		munmap(room, before);
	munmap(start + size, HUGE_PAGE - before);
	return start;
}

static int map_slot(struct guest_memory *memory, int fd, uint64_t gpa, uint64_t size,
		    uint64_t offset, struct err *err)
{
	struct guest_slot *slot = &memory->slots[memory->count];
	void *host = map_aligned(fd, size, offset);

	if (host == MAP_FAILED)
		return err_set(err, errno, "map %llu MiB of guest memory",
			       (unsigned long long)size >> 20);
	/* A crash of ours must not write the guest's secrets to a core file. */
	madvise(host, size, MADV_DONTDUMP);
	madvise(host, size, MADV_HUGEPAGE);
	*slot = (struct guest_slot){ .gpa = gpa, .size = size, .host = host, .fd_offset = offset };
	memory->count++;
	return 0;
}

bool huge_pages_hold(void)
{
	return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0 &&
	       prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
}

void huge_pages_release(bool held)
{
	if (held)
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
}

static int map_slots(struct guest_memory *memory, int memory_fd, uint64_t size, struct err *err)
{
	uint64_t low = size < GUEST_MMIO_HOLE_START ? size : GUEST_MMIO_HOLE_START;

	if (map_slot(memory, memory_fd, 0, low, 0, err) < 0)
		return -1;
	if (size > low &&
	    map_slot(memory, memory_fd, GUEST_MMIO_HOLE_END, size - low, low, err) < 0) {
		guest_memory_unmap(memory);
		return -1;
	}
	return 0;
}

int guest_memory_map(struct guest_memory *memory, int memory_fd, uint64_t size, struct err *err)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	bool held;
	int r;

	memory->count = 0;
	if (!size || size % page)
		return err_set(err, EINVAL, "map %llu bytes of guest memory, not whole pages",
			       (unsigned long long)size);
	held = huge_pages_hold();
	r = map_slots(memory, memory_fd, size, err);
	huge_pages_release(held);
	return r;
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
