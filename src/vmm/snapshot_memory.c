/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory in a snapshot: pages that are zero are left out, since a new machine's memory has
 * them already; small gaps are not, since a run more costs more than a page. What the kernel never
 * gives to anyone, its code and constants, is mapped from the file: it is not copied, and is in
 * memory once for all machines.
 */
#include "vmm/snapshot.h"

#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_SIZE 4096u
#define GAP_MAX	  (8u * PAGE_SIZE)
#define BATCH	  1024u /* IOV_MAX */

struct finder {
	struct snapshot_run *runs;
	uint32_t count, room;
	uint32_t mapped; /* so many of the runs are there from the beginning */
};

static bool is_zero(const uint8_t *page)
{
	const uint64_t *words = (const uint64_t *)page;

	for (size_t i = 0; i < PAGE_SIZE / sizeof(*words); i += 8)
		if (words[i] | words[i + 1] | words[i + 2] | words[i + 3] | words[i + 4] |
		    words[i + 5] | words[i + 6] | words[i + 7])
			return false;
	return true;
}

static void add_page(struct finder *finder, uint64_t gpa)
{
	struct snapshot_run *last = &finder->runs[finder->count - 1];

	if (finder->count > finder->mapped && gpa >= last->gpa &&
	    gpa - last->gpa <= last->size + GAP_MAX) {
		if (gpa - last->gpa >= last->size)
			last->size = gpa - last->gpa + PAGE_SIZE;
		return;
	}
	if (finder->count == finder->room) {
		finder->room *= 2;
		finder->runs = xrealloc(finder->runs, finder->room, sizeof(*finder->runs));
	}
	finder->runs[finder->count++] = (struct snapshot_run){ .gpa = gpa, .size = PAGE_SIZE };
}

static bool is_mapped(const struct finder *finder, uint64_t gpa)
{
	for (uint32_t i = 0; i < finder->mapped; i++)
		if (gpa - finder->runs[i].gpa < finder->runs[i].size)
			return true;
	return false;
}

/* A page that was never written is looked at by none: that would make it one of the file's. */
static int find_in_slot(struct finder *finder, const struct guest_slot *slot, int fd,
			struct err *err)
{
	const uint64_t end = slot->fd_offset + slot->size;
	uint64_t at = slot->fd_offset;

	while (at < end) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return err_set(err, errno, "look for the guest's memory in its file");
		for (at = (uint64_t)data; at < (uint64_t)hole && at < end; at += PAGE_SIZE) {
			uint64_t offset = at - slot->fd_offset;

			if (!is_mapped(finder, slot->gpa + offset) && !is_zero(slot->host + offset))
				add_page(finder, slot->gpa + offset);
		}
	}
	return 0;
}

uint32_t snapshot_find_pages(const struct guest_memory *memory, int memory_fd,
			     const struct snapshot_run *mapped, uint32_t count,
			     struct snapshot_run **runs, struct err *err)
{
	struct finder finder = { .room = 256 + count, .count = count, .mapped = count };

	*runs = NULL;
	finder.runs = xcalloc(finder.room, sizeof(*finder.runs));
	memcpy(finder.runs, mapped, count * sizeof(*mapped));
	for (size_t i = 0; i < memory->count; i++)
		if (find_in_slot(&finder, &memory->slots[i], memory_fd, err) < 0) {
			free(finder.runs);
			return 0;
		}
	*runs = finder.runs;
	if (finder.count > 0 && finder.count <= SNAPSHOT_RUNS_MAX)
		return finder.count;
	err_set(err, 0, "the guest's memory is in %u pieces", finder.count);
	return 0;
}

/* A run is as long as it needs to be, and so is what is moved at once. */
static int move(int fd, struct iovec *iov, size_t count, uint64_t *offset, bool write,
		struct err *err)
{
	while (count) {
		ssize_t n = write ? pwritev(fd, iov, (int)count, (off_t)*offset)
				  : preadv(fd, iov, (int)count, (off_t)*offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? errno : 0, "%s the guest's memory",
				       write ? "write" : "read");
		*offset += (uint64_t)n;
		while (count && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			count--;
		}
		if (count) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* From run `first` on, which lies at offset. */
static int move_all(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
		    uint32_t first, uint64_t offset, bool write, struct err *err)
{
	struct iovec iov[BATCH];
	size_t count = 0;

	for (uint32_t i = first; i < snapshot->header->runs; i++) {
		const struct snapshot_run *run = &snapshot->runs[i];

		iov[count++] = (struct iovec){ .iov_base = guest_range(memory, run->gpa, run->size),
					       .iov_len = run->size };
		if (count < BATCH && i + 1 < snapshot->header->runs)
			continue;
		if (move(fd, iov, count, &offset, write, err) < 0)
			return -1;
		count = 0;
	}
	return 0;
}

int snapshot_write_pages(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
			 struct err *err)
{
	return move_all(snapshot, memory, fd, 0, snapshot->header->head_size, true, err);
}

/* Maps what is the file's. Returns where that ends in the file; 0 with err set on failure. */
static uint64_t map_runs(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
			 struct err *err)
{
	uint64_t offset = snapshot->header->head_size;

	for (uint32_t i = 0; i < snapshot->header->mapped; i++) {
		const struct snapshot_run *run = &snapshot->runs[i];
		void *host = guest_range(memory, run->gpa, run->size);

		if (mmap(host, run->size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, (off_t)offset) == MAP_FAILED)
			return err_set(err, errno, "map the guest's memory"), 0;
		madvise(host, run->size, MADV_DONTDUMP);
		offset += run->size;
	}
	return offset;
}

int snapshot_read_pages(const struct snapshot *snapshot, const struct guest_memory *memory, int fd,
			struct err *err)
{
	bool held = huge_pages_hold();
	uint64_t offset = map_runs(snapshot, memory, fd, err);

	huge_pages_release(held);
	if (!offset)
		return -1;
	return move_all(snapshot, memory, fd, snapshot->header->mapped, offset, false, err);
}
