/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel finds at its 64-bit entry (Linux, Documentation/arch/x86/boot.rst and
 * zero-page.rst): the zero page with command line, initial RAM disk and memory map; page tables
 * and a GDT; the MP table.
 */
#include "vmm/x86/x86.h"

#include <asm/e820.h>
#include <asm/processor-flags.h>
#include <string.h>
#include <sys/stat.h>

#define BOOT_SIGNATURE	 0xaa55u
#define HEADER_SIGNATURE 0x53726448u /* "HdrS" */
#define LOADER_UNKNOWN	 0xffu
#define PAGE_SIZE	 4096ull

/* Page table entries and GDT descriptors are the CPU's (Intel SDM, volume 3). */
#define PRESENT	   1ull
#define WRITABLE   2ull
#define LARGE_PAGE 0x80ull
#define GDT_CODE   0x00af9b000000ffffull /* base 0, 4 GiB, execute and read, 64-bit */
#define GDT_DATA   0x00cf93000000ffffull /* base 0, 4 GiB, read and write */

static int load_initrd(const struct guest_memory *memory, const struct x86_kernel *kernel, int fd,
		       struct boot_params *params, struct err *err)
{
	uint64_t top = memory->slots[0].size, size, at;
	struct stat st;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at the initramfs");
	size = (uint64_t)st.st_size;
	if (!S_ISREG(st.st_mode) || size == 0)
		return err_set(err, 0, "the initramfs is empty or not a regular file");
	/* Right behind the kernel, in a large page that it needs anyway, and where it can reach. */
	if (kernel->header.initrd_addr_max && kernel->header.initrd_addr_max < top)
		top = kernel->header.initrd_addr_max;
	at = (kernel->end + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
	if (at > top || size > top - at || size > UINT32_MAX)
		return err_set(err, 0,
			       "the initramfs of %llu bytes and the kernel do not fit into the "
			       "machine's memory",
			       (unsigned long long)size);
	if (x86_read_at(fd, guest_range(memory, at, size), size, 0, "the initramfs", err) < 0)
		return -1;
	params->hdr.ramdisk_image = (uint32_t)at;
	params->hdr.ramdisk_size = (uint32_t)size;
	return 0;
}

static int write_cmdline(const struct guest_memory *memory, const char *cmdline,
			 struct boot_params *params, struct err *err)
{
	size_t size = strlen(cmdline) + 1;

	if (size > X86_CMDLINE_MAX)
		return err_set(
			err, 0,
			"the kernel command line has %zu characters, more than the %u that the "
			"kernel takes",
			size - 1, X86_CMDLINE_MAX - 1);
	memcpy(guest_range(memory, X86_CMDLINE, size), cmdline, size);
	params->hdr.cmd_line_ptr = (uint32_t)X86_CMDLINE;
	params->hdr.cmdline_size = (uint32_t)(size - 1);
	return 0;
}

static void e820_add(struct boot_params *params, uint64_t start, uint64_t end, uint32_t type)
{
	struct boot_e820_entry *entry = &params->e820_table[params->e820_entries];

	if (end <= start)
		return;
	*entry = (struct boot_e820_entry){ .addr = start, .size = end - start, .type = type };
	params->e820_entries++;
}

static void write_memory_map(const struct guest_memory *memory, struct boot_params *params)
{
	/* The MP table's KiB and the range where a PC has its ROMs are not for the kernel. */
	e820_add(params, 0, X86_MP_TABLE, E820_RAM);
	e820_add(params, X86_MP_TABLE, X86_HIGH_MEMORY, E820_RESERVED);
	e820_add(params, X86_HIGH_MEMORY, memory->slots[0].size, E820_RAM);
	for (size_t i = 1; i < memory->count; i++)
		e820_add(params, memory->slots[i].gpa, memory->slots[i].gpa + memory->slots[i].size,
			 E820_RAM);
}

/* One GiB mapped one to one: it covers the kernel, the zero page and the command line. */
static void write_page_tables(const struct guest_memory *memory)
{
	uint64_t *table = guest_range(memory, X86_PAGE_TABLES, 3 * PAGE_SIZE);
	const size_t entries = PAGE_SIZE / sizeof(*table);

	table[0] = (X86_PAGE_TABLES + PAGE_SIZE) | PRESENT | WRITABLE;
	table[entries] = (X86_PAGE_TABLES + 2 * PAGE_SIZE) | PRESENT | WRITABLE;
	for (uint64_t i = 0; i < entries; i++)
		table[2 * entries + i] = i << 21 | LARGE_PAGE | PRESENT | WRITABLE;
}

static void write_gdt(const struct guest_memory *memory)
{
	uint64_t *gdt = guest_range(memory, X86_GDT, 4 * sizeof(*gdt));

	gdt[X86_GDT_CODE] = GDT_CODE;
	gdt[X86_GDT_DATA] = GDT_DATA;
}

int x86_boot_setup(const struct guest_memory *memory, const struct x86_kernel *kernel,
		   int initrd_fd, const char *cmdline, unsigned int vcpus, uint32_t lines,
		   struct err *err)
{
	struct boot_params params = { .hdr = kernel->header };

	if (!guest_range(memory, 0, X86_HIGH_MEMORY))
		return err_set(err, 0, "the machine has less than 1 MiB of memory");
	params.hdr.boot_flag = BOOT_SIGNATURE;
	params.hdr.header = HEADER_SIGNATURE;
	params.hdr.type_of_loader = LOADER_UNKNOWN;
	params.hdr.loadflags |= LOADED_HIGH;
	write_memory_map(memory, &params);
	if (load_initrd(memory, kernel, initrd_fd, &params, err) < 0 ||
	    write_cmdline(memory, cmdline, &params, err) < 0 ||
	    x86_mptable_write(memory, vcpus, lines, err) < 0)
		return -1;
	memcpy(guest_range(memory, X86_ZERO_PAGE, sizeof(params)), &params, sizeof(params));
	write_page_tables(memory);
	write_gdt(memory);
	return 0;
}
