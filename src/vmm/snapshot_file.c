/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The head of a snapshot: its layout, its making, and its checks. */
#include "vmm/snapshot.h"

#include "base/hash.h"
#include "base/mem.h"
#include "vmm/vmm.h"
#include "vmm/x86/x86.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE 4096u

/*
 * Of words, since heads of some hundred KiB are read at every start; it finds damage, not malice.
 */
static uint64_t checksum(const struct snapshot_header *header)
{
	const uint64_t *words = (const uint64_t *)header;
	const size_t own = offsetof(struct snapshot_header, checksum) / sizeof(*words);
	uint64_t hash = HASH_START;

	for (size_t i = 0; i < header->head_size / sizeof(*words); i++)
		hash = hash_add(hash, i == own ? 0 : words[i]);
	return hash;
}

static uint64_t pad(uint64_t size, uint64_t to)
{
	return (size + to - 1) / to * to;
}

/* All counts are bounded by the caller, so nothing here can overflow. */
static uint64_t head_size(const struct snapshot_header *header)
{
	uint64_t size = sizeof(*header) + pad(header->key_size, 8);

	size += sizeof(struct x86_chips_state);
	size += header->vcpus * sizeof(struct x86_vcpu_state);
	size += header->devices * sizeof(struct snapshot_device);
	size += header->runs * sizeof(struct snapshot_run);
	return pad(size, PAGE_SIZE);
}

_Static_assert(sizeof(struct snapshot_header) % 8 == 0, "no part is misaligned");
_Static_assert(sizeof(struct x86_chips_state) % 8 == 0, "no part is misaligned");
_Static_assert(sizeof(struct x86_vcpu_state) % 8 == 0, "no part is misaligned");
_Static_assert(sizeof(struct snapshot_device) % 8 == 0, "no part is misaligned");

static void find_parts(struct snapshot *snapshot)
{
	const struct snapshot_header *header = snapshot->header;

	snapshot->key = snapshot->header + 1;
	snapshot->chips = (void *)((char *)snapshot->key + pad(header->key_size, 8));
	snapshot->vcpus = (void *)(snapshot->chips + 1);
	snapshot->devices = (void *)(snapshot->vcpus + header->vcpus);
	snapshot->runs = (void *)(snapshot->devices + header->devices);
}

void snapshot_new(struct snapshot *snapshot, const struct snapshot_wanted *wanted, uint32_t runs)
{
	struct snapshot_header header = { .memory_size = wanted->memory_size,
					  .key_size = (uint32_t)wanted->key_size,
					  .vcpus = wanted->vcpus,
					  .devices = wanted->devices,
					  .runs = runs };

	header.head_size = head_size(&header);
	snapshot->header = xcalloc(1, header.head_size);
	*snapshot->header = header;
	find_parts(snapshot);
	memcpy(snapshot->key, wanted->key, wanted->key_size);
}

void snapshot_seal(struct snapshot *snapshot)
{
	struct snapshot_header *header = snapshot->header;

	header->file_size = header->head_size;
	for (uint32_t i = 0; i < header->runs; i++)
		header->file_size += snapshot->runs[i].size;
	memcpy(header->magic, SNAPSHOT_MAGIC, sizeof(SNAPSHOT_MAGIC));
	header->checksum = checksum(header);
}

void snapshot_release(struct snapshot *snapshot)
{
	free(snapshot->header);
	snapshot->header = NULL;
}

static bool fits(const struct snapshot_header *header, const struct snapshot_wanted *wanted)
{
	return memcmp(header->magic, SNAPSHOT_MAGIC, sizeof(SNAPSHOT_MAGIC)) == 0 &&
	       header->memory_size == wanted->memory_size && header->key_size == wanted->key_size &&
	       header->key_size <= SNAPSHOT_KEY_MAX && header->vcpus == wanted->vcpus &&
	       header->devices == wanted->devices && header->runs > 0 &&
	       header->runs <= SNAPSHOT_RUNS_MAX && header->mapped <= header->runs &&
	       header->prefaulted <= header->mapped && header->head_size == head_size(header);
}

bool vmm_is_template(int fd)
{
	struct snapshot_header header;

	return pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       memcmp(header.magic, SNAPSHOT_MAGIC, sizeof(SNAPSHOT_MAGIC)) == 0;
}

static int check_runs(const struct snapshot *snapshot, const struct guest_memory *memory,
		      uint64_t file_size, struct err *err)
{
	const struct snapshot_header *header = snapshot->header;
	uint64_t left = file_size - header->head_size; /* the head was read */

	for (uint32_t i = 0; i < header->runs; i++) {
		const struct snapshot_run *run = &snapshot->runs[i];

		if (run->gpa % PAGE_SIZE || run->size % PAGE_SIZE || run->size > left ||
		    !guest_range(memory, run->gpa, run->size))
			return err_set(err, 0, "its memory does not fit");
		left -= run->size;
	}
	return left || header->file_size != file_size ? err_set(err, 0, "it is not whole") : 0;
}

int snapshot_read(struct snapshot *snapshot, int fd, const struct snapshot_wanted *wanted,
		  struct err *err)
{
	struct snapshot_header header;
	struct stat st;

	*snapshot = (struct snapshot){ 0 };
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at it");
	if (x86_read_at(fd, &header, sizeof(header), 0, "its header", err) < 0)
		return -1;
	if (!fits(&header, wanted))
		return err_set(err, 0, "it is none, or of another machine");
	snapshot->header = xcalloc(1, header.head_size);
	if (x86_read_at(fd, snapshot->header, header.head_size, 0, "its head", err) < 0)
		return -1;
	/* What was checked is what is used, though the file had changed meanwhile. */
	if (memcmp(snapshot->header, &header, sizeof(header)) != 0 ||
	    checksum(snapshot->header) != header.checksum)
		return err_set(err, 0, "it is damaged");
	find_parts(snapshot);
	if (memcmp(snapshot->key, wanted->key, wanted->key_size) != 0)
		return err_set(err, 0, "it is of another machine");
	return check_runs(snapshot, wanted->memory, (uint64_t)st.st_size, err);
}
