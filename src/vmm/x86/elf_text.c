/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a vmlinux has its code: from _text to _etext. Behind that its section goes on, up to the
 * next large page, with memory that the kernel gives to its page allocator; so the section's size
 * is not enough, and a kernel without symbols has none that can be told.
 */
#include "vmm/x86/x86.h"

#include "base/mem.h"
#include "base/str.h"

#include <elf.h>
#include <string.h>

#define SEGMENTS_MAX 32u
#define SECTIONS_MAX 1024u
#define TABLE_MAX    (16ull << 20)
#define PAGE_SIZE    4096ull

struct symbols {
	Elf64_Sym *table;
	char *names;
	uint64_t count, names_size;
};

/* A part of the file, with a NUL behind it; NULL where it is empty, too large or not there. */
static void *read_part(int fd, uint64_t offset, uint64_t size)
{
	_cleanup_free_ char *part = NULL;

	if (!size || size > TABLE_MAX)
		return NULL;
	part = xcalloc(1, size + 1);
	return x86_read_at(fd, part, size, offset, "symbols", NULL) < 0 ? NULL : steal(part);
}

static bool read_symbols(int fd, const Elf64_Ehdr *header, struct symbols *symbols)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;

	if (header->e_shentsize != sizeof(*sections) || header->e_shnum > SECTIONS_MAX)
		return false;
	sections = read_part(fd, header->e_shoff, header->e_shnum * sizeof(*sections));
	for (unsigned int i = 0; sections && i < header->e_shnum; i++) {
		const Elf64_Shdr *section = &sections[i];

		if (section->sh_type != SHT_SYMTAB || section->sh_link >= header->e_shnum)
			continue;
		symbols->table = read_part(fd, section->sh_offset, section->sh_size);
		symbols->count = section->sh_size / sizeof(*symbols->table);
		symbols->names = read_part(fd, sections[section->sh_link].sh_offset,
					   sections[section->sh_link].sh_size);
		symbols->names_size = sections[section->sh_link].sh_size;
		return symbols->table && symbols->names;
	}
	return false;
}

static uint64_t symbol(const struct symbols *symbols, const char *name)
{
	for (uint64_t i = 0; i < symbols->count; i++)
		if (symbols->table[i].st_name < symbols->names_size &&
		    str_eq(symbols->names + symbols->table[i].st_name, name))
			return symbols->table[i].st_value;
	return 0;
}

/* Physical addresses, whole pages, where both ends lie in one segment. */
static void place(int fd, const Elf64_Ehdr *header, uint64_t start, uint64_t end, uint64_t *gpa,
		  uint64_t *size)
{
	_cleanup_free_ Elf64_Phdr *segments = NULL;

	if (header->e_phentsize != sizeof(*segments) || header->e_phnum > SEGMENTS_MAX)
		return;
	segments = read_part(fd, header->e_phoff, header->e_phnum * sizeof(*segments));
	for (unsigned int i = 0; segments && i < header->e_phnum; i++) {
		const Elf64_Phdr *segment = &segments[i];
		uint64_t first, last;

		if (segment->p_type != PT_LOAD || start < segment->p_vaddr || end <= start ||
		    end - segment->p_vaddr > segment->p_filesz)
			continue;
		first = (start - segment->p_vaddr + segment->p_paddr + PAGE_SIZE - 1) &
			~(PAGE_SIZE - 1);
		last = (end - segment->p_vaddr + segment->p_paddr) & ~(PAGE_SIZE - 1);
		if (last <= first)
			return;
		*gpa = first;
		*size = last - first;
		return;
	}
}

void x86_elf_text(int fd, uint64_t *gpa, uint64_t *size)
{
	struct symbols symbols = { 0 };
	Elf64_Ehdr header;

	*gpa = *size = 0;
	if (x86_read_at(fd, &header, sizeof(header), 0, "header", NULL) == 0 &&
	    memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && read_symbols(fd, &header, &symbols))
		place(fd, &header, symbol(&symbols, "_text"), symbol(&symbols, "_etext"), gpa,
		      size);
	free(symbols.table);
	free(symbols.names);
}
