/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A bzImage, as distributions install it: it unpacks itself, entered at its 64-bit entry point
 * (Linux, Documentation/arch/x86/boot.rst). That takes time, and nothing of it can be shared: a
 * vmlinux is better.
 */
#include "vmm/x86/x86.h"

#include <stddef.h>

#define SECTOR		 512u
#define ENTRY_64	 0x200u	 /* behind the start of the protected-mode part */
#define PROTOCOL_64	 0x020cu /* the first version whose header tells of a 64-bit entry */
#define BOOT_SIGNATURE	 0xaa55u
#define SETUP_SECTS_ZERO 4u /* what a setup_sects of 0 stands for */

static int check_header(const struct setup_header *header, struct err *err)
{
	if (header->boot_flag != BOOT_SIGNATURE)
		return err_set(err, 0,
			       "the kernel image is a bzImage with a broken header (boot flag "
			       "%#x)",
			       header->boot_flag);
	if (header->version < PROTOCOL_64 || !(header->xloadflags & XLF_KERNEL_64) ||
	    !(header->loadflags & LOADED_HIGH))
		return err_set(err, 0,
			       "the kernel image is a bzImage without a 64-bit entry point "
			       "(boot protocol %u.%02u)",
			       header->version >> 8, header->version & 0xff);
	return 0;
}

int x86_bzimage_load(const struct guest_memory *memory, int fd, uint64_t size,
		     struct x86_kernel *kernel, struct err *err)
{
	const uint64_t header_at = offsetof(struct boot_params, hdr);
	struct setup_header *header = &kernel->header;
	uint64_t start, length, end, needed;
	void *host;

	if (x86_read_at(fd, header, sizeof(*header), header_at, "the kernel image's header", err) <
		    0 ||
	    check_header(header, err) < 0)
		return -1;
	start = ((header->setup_sects ? header->setup_sects : SETUP_SECTS_ZERO) + 1u) * SECTOR;
	length = header->syssize * 16ull;
	if (start >= size || length <= ENTRY_64 || size - start < length)
		return err_set(
			err, 0,
			"the kernel image should have %llu bytes and has %llu; it is truncated",
			(unsigned long long)(start + length), (unsigned long long)size);
	/* It unpacks to where it was loaded, and needs init_size bytes there. */
	needed = header->init_size > length ? header->init_size : length;
	if (header->pref_address < X86_HIGH_MEMORY ||
	    __builtin_add_overflow(header->pref_address, needed, &end) ||
	    !guest_range(memory, header->pref_address, needed))
		return err_set(
			err, 0,
			"the kernel image needs memory at %#llx+%#llx, which the machine does "
			"not have",
			(unsigned long long)header->pref_address, (unsigned long long)needed);
	host = guest_range(memory, header->pref_address, length);
	if (x86_read_at(fd, host, length, start, "the kernel image", err) < 0)
		return -1;
	kernel->entry = header->pref_address + ENTRY_64;
	kernel->end = end;
	return 0;
}
