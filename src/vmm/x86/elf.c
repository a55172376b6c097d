/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An ELF vmlinux: its segments go to their physical addresses. Its entry point is the kernel's
 * 64-bit one, which takes the zero page in rsi as that of a bzImage does.
 *
 * What lies behind most of the code is mapped from the file instead of being read: what page table
 * isolation and other mitigations want at the beginning of large pages, in 4 MiB of INT3 that would
 * be read for nothing and kept for each VM. The code had better not be: the kernel patches seven of
 * its eight pages at boot, each of which would be two faults and a copy. Nor may what the kernel
 * gives to its page allocator, the memory of its initialisation and the gaps between sections: what
 * is allocated there may become a virtio buffer, which the file server looks for in the memfd. And
 * constants (.rodata) share a large page with such a gap, which in small pages costs hundreds of
 * faults; but machines from a template map them from there.
 */
#include "vmm/x86/x86.h"

#include "base/mem.h"
#include "base/str.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEGMENTS_MAX 32u
#define SECTIONS_MAX 1024u
#define NAMES_MAX    (64u << 10)
#define PADDING_STEP (64ull << 10)
#define INT3	     0xcc

struct range {
	uint64_t offset, end; /* in the file */
};

struct image {
	const struct guest_memory *memory;
	int fd;
	uint64_t size;
	Elf64_Ehdr header;
	Elf64_Phdr segments[SEGMENTS_MAX];
	struct range shared; /* padding, which is mapped, and constants, of the segment shared_in */
	uint64_t constants;  /* where they begin in it */
	unsigned int shared_in;
};

static int check_header(const Elf64_Ehdr *header, struct err *err)
{
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return err_set(err, 0, "the kernel image is an ELF file, but not for x86-64");
	if (header->e_type != ET_EXEC)
		return err_set(err, 0,
			       "the kernel image is an ELF file of type %u, not an executable; a "
			       "vmlinux is one",
			       header->e_type);
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0 ||
	    header->e_phnum > SEGMENTS_MAX)
		return err_set(err, 0, "the kernel image has %u program headers of %u bytes",
			       header->e_phnum, header->e_phentsize);
	return 0;
}

/* Is [start, start + size) inside [0, limit)? */
static bool inside(uint64_t start, uint64_t size, uint64_t limit)
{
	return start <= limit && size <= limit - start;
}

static int check_segment(const struct image *image, unsigned int i, struct err *err)
{
	const Elf64_Phdr *segment = &image->segments[i];
	unsigned long long start = segment->p_paddr, size = segment->p_memsz;

	if (segment->p_filesz > segment->p_memsz)
		return err_set(err, 0, "segment %u of the kernel image is larger than its memory",
			       i);
	if (!inside(segment->p_offset, segment->p_filesz, image->size))
		return err_set(err, 0,
			       "segment %u of the kernel image lies behind the file's end; it is "
			       "truncated",
			       i);
	if (start < X86_HIGH_MEMORY)
		return err_set(err, 0,
			       "segment %u of the kernel image is to be at %#llx, below 1 MiB", i,
			       start);
	if (!guest_range(image->memory, start, size))
		return err_set(
			err, 0,
			"segment %u of the kernel image needs memory at %#llx+%#llx, which the "
			"machine does not have",
			i, start, size);
	return 0;
}

static uint64_t page_up(uint64_t x)
{
	return (x + 4095) & ~4095ull;
}

/*
 * The vDSO is among .rodata's last parts, a page-aligned ELF file. Programs have it mapped and may
 * write it to a file past the page cache, so it and what follows has to be in the memfd: the range
 * ends there. (It also changes at boot.)
 */
static void range_end_at_vdso(const struct image *image, struct range *range)
{
	uint64_t size = range->end - range->offset;
	const uint8_t *map =
		mmap(NULL, size, PROT_READ, MAP_PRIVATE, image->fd, (off_t)range->offset);

	if (map == MAP_FAILED) {
		range->end = range->offset;
		return;
	}
	for (uint64_t at = 0; at < size; at += 4096) {
		if (memcmp(map + at, ELFMAG, SELFMAG) != 0)
			continue;
		range->end = range->offset + at;
		break;
	}
	munmap((void *)map, size);
}

/*
 * Where the part of the code begins that is padding, but for a page here and there: by samples. All
 * of it is the file's own, so nothing is wrong where they mislead.
 */
static uint64_t find_padding(const struct image *image, const Elf64_Shdr *text, uint64_t end)
{
	uint8_t sample[64];

	if (!text || page_up(text->sh_offset + text->sh_size) != end)
		return end;
	while (end - text->sh_offset >= 2 * PADDING_STEP) {
		if (x86_read_at(image->fd, sample, sizeof(sample), end - PADDING_STEP / 2, "code",
				NULL) < 0)
			break;
		for (size_t i = 0; i < sizeof(sample); i++)
			if (sample[i] != INT3)
				return end;
		end -= PADDING_STEP;
	}
	return end;
}

/*
 * Finds the whole pages of a section, and maps padding of the code before it, if they lie in one
 * segment so that pages match pages.
 */
static void share_section(struct image *image, const Elf64_Shdr *section, const Elf64_Shdr *text)
{
	for (unsigned int i = 0; i < image->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		struct range range = { .offset = page_up(section->sh_offset) };
		uint64_t size;
		uint8_t *host;

		if (segment->p_type != PT_LOAD || (segment->p_offset ^ segment->p_paddr) & 4095 ||
		    section->sh_offset < segment->p_offset ||
		    !inside(section->sh_offset - segment->p_offset, section->sh_size,
			    segment->p_filesz))
			continue;
		range.end = (section->sh_offset + section->sh_size) & ~4095ull;
		if (range.end > range.offset)
			range_end_at_vdso(image, &range);
		if (range.end <= range.offset)
			return;
		image->constants = range.offset;
		if (text && text->sh_offset >= segment->p_offset)
			range.offset = find_padding(image, text, range.offset);
		size = image->constants - range.offset;
		host = guest_range(image->memory,
				   segment->p_paddr + (range.offset - segment->p_offset),
				   range.end - range.offset);
		if (host && (!size || mmap(host, size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, image->fd,
					   (off_t)range.offset) != MAP_FAILED))
			image->shared = range;
		image->shared_in = i;
		return;
	}
}

static const Elf64_Shdr *find_section(const struct image *image, const Elf64_Shdr *sections,
				      const char *names, uint64_t names_size, const char *name)
{
	for (unsigned int i = 0; i < image->header.e_shnum; i++) {
		const Elf64_Shdr *section = &sections[i];

		if (section->sh_type == SHT_PROGBITS && section->sh_name < names_size &&
		    inside(section->sh_offset, section->sh_size, image->size) &&
		    str_eq(names + section->sh_name, name))
			return section;
	}
	return NULL;
}

/* Section headers are optional: where they are missing or odd, everything is read. */
static void share_constants(struct image *image)
{
	const Elf64_Ehdr *header = &image->header;
	uint64_t table_size = header->e_shnum * sizeof(Elf64_Shdr);
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	_cleanup_free_ char *names = NULL;
	const Elf64_Shdr *name_section, *rodata;

	if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > SECTIONS_MAX ||
	    header->e_shstrndx >= header->e_shnum ||
	    !inside(header->e_shoff, table_size, image->size))
		return;
	sections = xcalloc(header->e_shnum, sizeof(Elf64_Shdr));
	if (x86_read_at(image->fd, sections, table_size, header->e_shoff, "sections", NULL) < 0)
		return;
	name_section = &sections[header->e_shstrndx];
	if (name_section->sh_size > NAMES_MAX ||
	    !inside(name_section->sh_offset, name_section->sh_size, image->size))
		return;
	names = xcalloc(1, name_section->sh_size + 1); /* the last name ends here at the latest */
	if (x86_read_at(image->fd, names, name_section->sh_size, name_section->sh_offset, "names",
			NULL) < 0)
		return;
	rodata = find_section(image, sections, names, name_section->sh_size, ".rodata");
	if (rodata)
		share_section(image, rodata,
			      find_section(image, sections, names, name_section->sh_size, ".text"));
}

/* Reads a segment but for what is mapped already. */
static int load_segment(struct image *image, unsigned int i, struct err *err)
{
	const Elf64_Phdr *segment = &image->segments[i];
	uint64_t start = segment->p_offset, end = start + segment->p_filesz;
	uint8_t *host = guest_range(image->memory, segment->p_paddr, segment->p_memsz);
	struct range hole = { .offset = end, .end = end };

	if (image->shared.end && image->shared_in == i)
		hole = (struct range){ image->shared.offset, image->constants };
	if (x86_read_at(image->fd, host, hole.offset - start, start, "the kernel image", err) < 0)
		return -1;
	return x86_read_at(image->fd, host + (hole.end - start), end - hole.end, hole.end,
			   "the kernel image", err);
}

static bool has_entry(const struct image *image)
{
	for (unsigned int i = 0; i < image->header.e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD &&
		    image->header.e_entry - segment->p_paddr < segment->p_filesz)
			return true;
	}
	return false;
}

int x86_elf_load(const struct guest_memory *memory, int fd, uint64_t size,
		 struct x86_kernel *kernel, struct err *err)
{
	struct image image = { .memory = memory, .fd = fd, .size = size };
	const Elf64_Ehdr *header = &image.header;

	if (x86_read_at(fd, &image.header, sizeof(image.header), 0, "the kernel image's header",
			err) < 0 ||
	    check_header(header, err) < 0)
		return -1;
	if (!inside(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), size))
		return err_set(err, 0,
			       "the kernel image's program headers lie behind the file's end; "
			       "it is truncated");
	if (x86_read_at(fd, image.segments, header->e_phnum * sizeof(Elf64_Phdr), header->e_phoff,
			"the kernel image's program headers", err) < 0)
		return -1;
	for (unsigned int i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image.segments[i];

		if (segment->p_type != PT_LOAD || (!segment->p_memsz && !segment->p_filesz))
			continue;
		if (check_segment(&image, i, err) < 0)
			return -1;
		if (segment->p_paddr + segment->p_memsz > kernel->end)
			kernel->end = segment->p_paddr + segment->p_memsz;
	}
	if (!has_entry(&image))
		return err_set(err, 0,
			       "the kernel image's entry point %#llx is in none of its segments",
			       (unsigned long long)header->e_entry);
	share_constants(&image);
	for (unsigned int i = 0; i < header->e_phnum; i++)
		if (image.segments[i].p_type == PT_LOAD && image.segments[i].p_filesz &&
		    load_segment(&image, i, err) < 0)
			return -1;
	kernel->entry = header->e_entry;
	if (image.shared.end) {
		const Elf64_Phdr *segment = &image.segments[image.shared_in];

		kernel->shared = segment->p_paddr + (image.shared.offset - segment->p_offset);
		kernel->shared_size = image.shared.end - image.shared.offset;
		kernel->padding_size = image.constants - image.shared.offset;
	}
	return 0;
}
