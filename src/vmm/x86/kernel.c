/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of the two image formats a kernel has. */
#include "vmm/x86/x86.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int x86_read_at(int fd, void *buffer, uint64_t size, uint64_t offset, const char *what,
		struct err *err)
{
	uint8_t *at = buffer;

	while (size) {
		ssize_t n = pread(fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, errno, "read %s", what);
		if (n == 0)
			return err_set(err, 0, "read %s: the file ends too early; it is truncated",
				       what);
		at += n;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

int x86_kernel_load(const struct guest_memory *memory, int fd, struct x86_kernel *kernel,
		    struct err *err)
{
	uint8_t start[offsetof(struct boot_params, hdr) + sizeof(struct setup_header)] = { 0 };
	const size_t magic_at =
		offsetof(struct boot_params, hdr) + offsetof(struct setup_header, header);
	struct stat st;
	uint64_t size;

	*kernel = (struct x86_kernel){ 0 };
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at the kernel image");
	if (!S_ISREG(st.st_mode))
		return err_set(err, 0, "the kernel image is not a regular file");
	size = (uint64_t)st.st_size;
	if (size == 0)
		return err_set(err, 0, "the kernel image is empty");
	if (x86_read_at(fd, start, size < sizeof(start) ? size : sizeof(start), 0,
			"the kernel image", err) < 0)
		return -1;
	if (memcmp(start, ELFMAG, SELFMAG) == 0)
		return x86_elf_load(memory, fd, size, kernel, err);
	if (memcmp(start + magic_at, "HdrS", 4) == 0)
		return x86_bzimage_load(memory, fd, size, kernel, err);
	return err_set(err, 0,
		       "the kernel image is not a kernel: neither an ELF vmlinux nor a "
		       "bzImage (vmlinuz)");
}
