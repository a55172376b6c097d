/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The input as a bzImage: its header, and then as many zeros as the first byte says. */
#include "vmm/x86/x86.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY (32ull << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory_fd = -1, fd = -1;
	static struct guest_memory memory;
	const off_t at = offsetof(struct boot_params, hdr);
	struct setup_header header = { 0 };
	struct x86_kernel kernel = { 0 };
	struct err err;

	if (memory_fd < 0) {
		memory_fd = guest_memory_create(MEMORY, &err);
		fd = memfd_create("kernel", MFD_CLOEXEC);
		if (guest_memory_map(&memory, memory_fd, MEMORY, &err) < 0)
			return 0;
	}
	if (size < 1)
		return 0;
	memcpy(&header, data + 1, size - 1 < sizeof(header) ? size - 1 : sizeof(header));
	header.header = 0x53726448; /* "HdrS" */
	header.boot_flag = 0xaa55;
	header.version |= 0x0200;
	header.xloadflags |= XLF_KERNEL_64;
	header.loadflags |= LOADED_HIGH;
	if (ftruncate(fd, 0) < 0 || ftruncate(fd, data[0] * 128) < 0 ||
	    pwrite(fd, &header, sizeof(header), at) != (ssize_t)sizeof(header))
		return 0;
	if (x86_kernel_load(&memory, fd, &kernel, &err) == 0)
		x86_boot_setup(&memory, &kernel, fd, "", 1, 0, &err);
	return 0;
}
