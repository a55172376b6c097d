/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is x86 about the machine: how a kernel image gets into memory and is told of the machine,
 * and the state that a vCPU starts in.
 */
#pragma once

#include "base/err.h"
#include "virtio/memory.h"

#include <asm/bootparam.h>
#include <linux/kvm.h>
#include <stdbool.h>

/* The map of the first MiB. All but the MP table is the kernel's own once it has read it. */
#define X86_GDT		  0x500ull
#define X86_BOOT_STACK	  0x6ff0ull
#define X86_ZERO_PAGE	  0x7000ull
#define X86_PAGE_TABLES	  0x9000ull /* PML4, PDPT, PD: the first GiB, mapped one to one */
#define X86_CMDLINE	  0x20000ull
#define X86_CMDLINE_MAX	  2048u	     /* with the final NUL: the kernel's COMMAND_LINE_SIZE */
#define X86_MP_TABLE	  0x9fc00ull /* the last KiB of base memory, where kernels look */
#define X86_MP_TABLE_SIZE 0x400ull
#define X86_ACPI	  0xe0000ull /* where kernels look for its pointer */
#define X86_ACPI_SIZE	  0x4000ull
#define X86_HIGH_MEMORY	  0x100000ull

#define X86_GDT_CODE 2u /* entries of the GDT: the boot protocol's __BOOT_CS is 0x10, ... */
#define X86_GDT_DATA 3u /* ... its __BOOT_DS 0x18 */

/* A kernel in guest memory. */
struct x86_kernel {
	uint64_t entry; /* 64-bit code; rsi is to hold X86_ZERO_PAGE */
	uint64_t end;	/* nothing of the kernel's lies from here on */
	/*
	 * What stays as it is in the file: guest-physical, size 0 where nothing is known to. First
	 * the padding of the code, mapped, most of which the guest never looks at, then the
	 * constants.
	 */
	uint64_t shared, shared_size, padding_size;
	/* The image's own header, where it has one (bzImage), else zero. */
	struct setup_header header;
};

/*
 * x86_kernel_load() - put an ELF vmlinux or a bzImage into guest memory.
 * What the linker filled the end of a vmlinux's code with is mapped privately from the file, so
 * that VMs share it; another process that maps the guest's memory does not see those pages.
 *
 * Returns 0, or -1 with err set: what is wrong with the image.
 */
int x86_kernel_load(const struct guest_memory *memory, int fd, struct x86_kernel *kernel,
		    struct err *err);

/* The two formats; size is the file's. */
int x86_elf_load(const struct guest_memory *memory, int fd, uint64_t size,
		 struct x86_kernel *kernel, struct err *err);
int x86_bzimage_load(const struct guest_memory *memory, int fd, uint64_t size,
		     struct x86_kernel *kernel, struct err *err);

/*
 * x86_elf_text() - the whole pages of a vmlinux's code, guest-physical: memory that stays the
 * kernel's own, and never becomes a buffer. Size 0 where the image has no symbols that tell.
 */
void x86_elf_text(int fd, uint64_t *gpa, uint64_t *size);

/*
 * x86_read_at() - read exactly size bytes of a file at an offset.
 * Returns 0, or -1 with err set; what names them in the message.
 */
int x86_read_at(int fd, void *buffer, uint64_t size, uint64_t offset, const char *what,
		struct err *err);

/*
 * x86_boot_setup() - initial RAM disk, command line, memory map, page tables, GDT and MP table.
 * @initrd_fd: -1 for none.
 * @lines: a bit for each line of the I/O APIC that a device has.
 *
 * Returns 0, or -1 with err set.
 */
int x86_boot_setup(const struct guest_memory *memory, const struct x86_kernel *kernel,
		   int initrd_fd, const char *cmdline, unsigned int vcpus, uint32_t lines,
		   struct err *err);

/* x86_table_checksum() - what makes the bytes of a table sum up to 0, in both specifications. */
static inline uint8_t x86_table_checksum(const void *data, size_t size)
{
	const uint8_t *bytes = data;
	uint8_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + bytes[i]);
	return (uint8_t)-sum;
}

/* x86_mptable_write() - the MultiProcessor Specification 1.4's table: CPUs, interrupt lines. */
int x86_mptable_write(const struct guest_memory *memory, unsigned int vcpus, uint32_t lines,
		      struct err *err);

/* A virtio-mmio device: its page of registers, its interrupt line, its _UID. */
struct x86_device {
	uint64_t base, size;
	uint32_t gsi, id;
};

/*
 * x86_acpi_write() - ACPI tables, for a kernel that was built for machines in general.
 * Returns 0, or -1 with err set.
 */
int x86_acpi_write(const struct guest_memory *memory, unsigned int vcpus,
		   const struct x86_device *devices, unsigned int count, struct err *err);

/*
 * x86_cpuid_new() - what this host's KVM can offer, for the caller to free; NULL with err set.
 * x86_cpuid_edit() - make it that of one vCPU of so many.
 */
struct kvm_cpuid2 *x86_cpuid_new(int kvm_fd, struct err *err);
void x86_cpuid_edit(struct kvm_cpuid2 *cpuid, unsigned int vcpu, unsigned int vcpus);

/*
 * x86_vcpu_setup() - CPUID and MSRs of a vCPU; where `boot` is set, also the registers that it
 * enters the kernel with (others wait for the first one to start them).
 */
int x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
		   struct err *err);
