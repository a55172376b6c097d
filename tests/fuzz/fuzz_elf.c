/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The input as a vmlinux. */
#include "vmm/x86/x86.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY (32ull << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What every ELF file has to have, so that the input is about the rest. */
static void fix(Elf64_Ehdr *header)
{
	memcpy(header->e_ident, ELFMAG, SELFMAG);
	header->e_ident[EI_CLASS] = ELFCLASS64;
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_machine = EM_X86_64;
	header->e_type = ET_EXEC;
	header->e_phentsize = sizeof(Elf64_Phdr);
	header->e_shentsize = sizeof(Elf64_Shdr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory_fd = -1, fd = -1;
	struct guest_memory memory;
	struct x86_kernel kernel;
	Elf64_Ehdr header;
	uint64_t text, text_size;
	struct err err;

	if (memory_fd < 0) {
		memory_fd = guest_memory_create(MEMORY, &err);
		fd = memfd_create("kernel", MFD_CLOEXEC);
	}
	if (size < sizeof(header) || ftruncate(fd, 0) < 0 ||
	    pwrite(fd, data, size, 0) != (ssize_t)size)
		return 0;
	memcpy(&header, data, sizeof(header));
	fix(&header);
	if (pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    guest_memory_map(&memory, memory_fd, MEMORY, &err) < 0)
		return 0;
	x86_kernel_load(&memory, fd, &kernel, &err);
	x86_elf_text(fd, &text, &text_size);
	guest_memory_unmap(&memory);
	return 0;
}
