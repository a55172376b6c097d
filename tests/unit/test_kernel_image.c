/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel images, good and bad. */
#include "base/fd.h"
#include "vmm/vmm.h"
#include "vmm/x86/x86.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define MEMORY	(64ull << 20)
#define LOAD_AT 0x1000000ull
#define PAGE	4096u

struct fixture {
	struct guest_memory memory;
	int memory_fd, image_fd;
	struct x86_kernel kernel;
	struct err err;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->memory_fd = guest_memory_create(MEMORY, &f->err);
	f->image_fd = memfd_create("kernel", MFD_CLOEXEC);
	*state = f;
	return f->memory_fd < 0 || f->image_fd < 0 ||
	       guest_memory_map(&f->memory, f->memory_fd, MEMORY, &f->err) < 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	guest_memory_unmap(&f->memory);
	close(f->memory_fd);
	close(f->image_fd);
	free(f);
	return 0;
}

static int load(struct fixture *f)
{
	f->err.text[0] = '\0';
	return x86_kernel_load(&f->memory, f->image_fd, &f->kernel, &f->err);
}

static void assert_refused(struct fixture *f, const char *why)
{
	assert_int_equal(load(f), -1);
	if (!strstr(f->err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", f->err.text, why);
}

static void put(struct fixture *f, const void *data, size_t size, uint64_t offset)
{
	assert_int_equal(pwrite(f->image_fd, data, size, (off_t)offset), (ssize_t)size);
}

/*
 * A vmlinux in small: one segment with a page of "text", four of .rodata of which the third starts
 * like the vDSO, half a page of data, and a page and a half that is not in the file.
 */
struct elf {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	Elf64_Shdr sections[3];
	char names[24];
};

#define TEXT	PAGE
#define RODATA	(2 * PAGE)
#define VDSO	(4 * PAGE)
#define DATA	(6 * PAGE)
#define IMAGE	(6 * PAGE + PAGE / 2)
#define SECTION 2 /* .rodata */

static const struct elf good = {
	.header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_entry = LOAD_AT + 16,
		.e_phoff = offsetof(struct elf, segment),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shoff = offsetof(struct elf, sections),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 1,
	},
	.segment = {
		.p_type = PT_LOAD,
		.p_offset = TEXT,
		.p_paddr = LOAD_AT,
		.p_filesz = IMAGE - TEXT,
		.p_memsz = IMAGE - TEXT + PAGE + PAGE / 2,
	},
	.sections = {
		[1] = { .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct elf, names), .sh_size = 24 },
		[SECTION] = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = RODATA,
			      .sh_size = DATA - RODATA },
	},
	.names = "\0.rodata\0.text",
};

static void put_elf(struct fixture *f, const struct elf *elf)
{
	char page[PAGE];

	for (uint64_t offset = 0; offset < IMAGE; offset += PAGE) {
		memset(page, 'a' + (int)(offset / PAGE), sizeof(page));
		put(f, page, offset + PAGE > IMAGE ? IMAGE - offset : PAGE, offset);
	}
	put(f, ELFMAG, SELFMAG, VDSO);
	put(f, elf, sizeof(*elf), 0);
}

static char in_memfd(struct fixture *f, uint64_t gpa)
{
	char byte = 0;

	assert_int_equal(pread(f->memory_fd, &byte, 1, (off_t)gpa), 1);
	return byte;
}

static void loads_a_vmlinux(void **state)
{
	struct fixture *f = *state;
	const char *host = guest_range(&f->memory, LOAD_AT, IMAGE);

	put_elf(f, &good);
	assert_int_equal(load(f), 0);
	assert_int_equal(f->kernel.entry, LOAD_AT + 16);
	assert_int_equal(f->kernel.end, LOAD_AT + IMAGE - TEXT + PAGE + PAGE / 2);
	assert_int_equal(host[0], 'b');
	assert_int_equal(f->kernel.shared, LOAD_AT + RODATA - TEXT); /* constants, to the vDSO */
	assert_int_equal(f->kernel.shared_size, 2 * PAGE);
	assert_int_equal(f->kernel.padding_size, 0);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(in_memfd(f, LOAD_AT + RODATA - TEXT + i * PAGE + 9), 'c' + i);
	assert_int_equal(in_memfd(f, LOAD_AT), 'b');
	assert_int_equal(in_memfd(f, LOAD_AT + VDSO - TEXT + 9), 'e');
	assert_int_equal(in_memfd(f, LOAD_AT + VDSO - TEXT + PAGE), 'f');
	assert_int_equal(in_memfd(f, LOAD_AT + DATA - TEXT + PAGE / 2 - 1), 'g');
	assert_int_equal(host[DATA - TEXT + PAGE / 2], 0);
}

/* Half a MiB of code, of which the last part is padding with a page of code in between. */
static void maps_the_padding_of_code(void **state)
{
	enum { CODE = 512 << 10, PADDING = 192 << 10, LAST = CODE - PADDING };
	struct fixture *f = *state;
	struct elf elf = good;
	const char *host = guest_range(&f->memory, LOAD_AT, 2 * CODE);
	_cleanup_free_ char *text = xcalloc(1, CODE);

	elf.segment.p_filesz = elf.segment.p_memsz = CODE + PAGE;
	elf.sections[0] = (Elf64_Shdr){
		.sh_name = 9, .sh_type = SHT_PROGBITS, .sh_offset = TEXT, .sh_size = CODE
	};
	elf.sections[SECTION].sh_offset = TEXT + CODE;
	elf.sections[SECTION].sh_size = PAGE;
	memset(text, 'c', LAST);
	memset(text + LAST, 0xcc, PADDING);
	memset(text + LAST + PAGE, 'e', PAGE);
	put(f, &elf, sizeof(elf), 0);
	put(f, text, CODE, TEXT);
	put(f, "constants", 10, TEXT + CODE);
	assert_int_equal(ftruncate(f->image_fd, TEXT + CODE + PAGE), 0);
	assert_int_equal(load(f), 0);
	assert_memory_equal(host, text, CODE);
	assert_string_equal(host + CODE, "constants");
	assert_int_equal(f->kernel.shared, LOAD_AT + LAST);
	assert_int_equal(f->kernel.shared_size, PADDING + PAGE);
	assert_int_equal(f->kernel.padding_size, PADDING);
	assert_int_equal(in_memfd(f, LOAD_AT + LAST - 1), 'c');
	/* Padding: here, but not in what the file server sees. */
	assert_int_equal(in_memfd(f, LOAD_AT + LAST + PAGE), 0);
	assert_int_equal(in_memfd(f, LOAD_AT + CODE), 'c');
	/* It is the section that says that this is code. */
	elf.sections[0].sh_size = CODE - PAGE;
	put(f, &elf, sizeof(elf), 0);
	assert_int_equal(load(f), 0);
	assert_int_equal(f->kernel.padding_size, 0);
}

static void loads_a_vmlinux_without_sections(void **state)
{
	struct fixture *f = *state;
	struct elf elf = good;
	static const struct {
		uint64_t offset, size;
	} odd[] = { { RODATA, UINT64_MAX }, { UINT64_MAX, PAGE }, { RODATA, 0 },
		    { 0, 0x10000 },	    { RODATA + 1, 100 },  { IMAGE, 1 } };

	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		elf.sections[SECTION].sh_offset = odd[i].offset;
		elf.sections[SECTION].sh_size = odd[i].size;
		put_elf(f, &elf);
		assert_int_equal(load(f), 0);
		assert_int_equal(in_memfd(f, LOAD_AT + RODATA - TEXT), 'c');
	}
	elf.header.e_shnum = elf.header.e_shstrndx = 0;
	put_elf(f, &elf);
	assert_int_equal(load(f), 0);
}

static void refuses_what_is_no_kernel(void **state)
{
	struct fixture *f = *state;
	char zeros[2 * PAGE] = { 0 };

	assert_refused(f, "is empty");
	put(f, "#!/bin/sh\n", 10, 0);
	assert_refused(f, "not a kernel: neither an ELF vmlinux nor a bzImage");
	put(f, zeros, sizeof(zeros), 0);
	assert_refused(f, "not a kernel");
	assert_int_equal(ftruncate(f->image_fd, 0), 0);
	put(f, &good, 20, 0);
	assert_refused(f, "truncated");
	close(f->image_fd);
	f->image_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_refused(f, "not a regular file");
}

static void refuses_bad_elf_files(void **state)
{
	struct fixture *f = *state;

#define BAD(change, why)                                                                           \
	do {                                                                                       \
		struct elf elf = good;                                                             \
		change;                                                                            \
		put_elf(f, &elf);                                                                  \
		assert_refused(f, why);                                                            \
	} while (0)
	BAD(elf.header.e_machine = EM_AARCH64, "not for x86-64");
	BAD(elf.header.e_ident[EI_CLASS] = ELFCLASS32, "not for x86-64");
	BAD(elf.header.e_type = ET_DYN, "not an executable");
	BAD(elf.header.e_phnum = 0, "0 program headers");
	BAD(elf.header.e_phnum = 65535, "65535 program headers");
	BAD(elf.header.e_phentsize = 1, "program headers of 1 bytes");
	BAD(elf.header.e_phoff = IMAGE - 1, "truncated");
	BAD(elf.header.e_phoff = UINT64_MAX, "truncated");
	BAD(elf.header.e_entry = LOAD_AT - 1, "entry point");
	BAD(elf.header.e_entry = LOAD_AT + IMAGE, "entry point");
	BAD(elf.segment.p_type = PT_NOTE, "entry point");
	BAD(elf.segment.p_filesz++, "truncated");
	BAD(elf.segment.p_offset = UINT64_MAX, "truncated");
	BAD(elf.segment.p_memsz = 1, "larger than its memory");
	BAD(elf.segment.p_memsz = 0, "larger than its memory");
	BAD(elf.segment.p_memsz = UINT64_MAX, "does not have");
	BAD(elf.segment.p_memsz = MEMORY, "does not have");
	BAD(elf.segment.p_paddr = 0, "below 1 MiB");
	BAD(elf.segment.p_paddr = MEMORY, "does not have");
	BAD(elf.segment.p_paddr = UINT64_MAX, "does not have");
#undef BAD
}

static void put_bzimage(struct fixture *f, const struct setup_header *header, uint64_t size)
{
	char byte = 'k';

	assert_int_equal(ftruncate(f->image_fd, 0), 0);
	assert_int_equal(ftruncate(f->image_fd, (off_t)size), 0);
	put(f, header, sizeof(*header), offsetof(struct boot_params, hdr));
	if (size > 1024)
		put(f, &byte, 1, 1024);
}

static const struct setup_header good_header = {
	.setup_sects = 1,
	.syssize = 0x100,
	.boot_flag = 0xaa55,
	.header = 0x53726448,
	.version = 0x020f,
	.loadflags = LOADED_HIGH,
	.xloadflags = XLF_KERNEL_64,
	.pref_address = LOAD_AT,
	.init_size = 0x20000,
};

static void loads_a_bzimage(void **state)
{
	struct fixture *f = *state;

	put_bzimage(f, &good_header, 1024 + 0x1000);
	assert_int_equal(load(f), 0);
	assert_int_equal(f->kernel.entry, LOAD_AT + 0x200);
	assert_int_equal(f->kernel.end, LOAD_AT + 0x20000);
	assert_int_equal(in_memfd(f, LOAD_AT), 'k');
	assert_memory_equal(&f->kernel.header, &good_header, sizeof(good_header));
}

static void refuses_bad_bzimages(void **state)
{
	struct fixture *f = *state;

#define BAD(change, size, why)                                                                     \
	do {                                                                                       \
		struct setup_header h = good_header;                                               \
		change;                                                                            \
		put_bzimage(f, &h, size);                                                          \
		assert_refused(f, why);                                                            \
	} while (0)
	BAD(, 1024 + 0xfff, "should have 5120 bytes and has 5119; it is truncated");
	BAD(, 1024, "truncated");
	BAD(, offsetof(struct boot_params, hdr) + sizeof(h), "truncated");
	BAD(h.setup_sects = 255, 1024 + 0x1000, "truncated");
	BAD(h.syssize = UINT32_MAX, 1024 + 0x1000, "truncated");
	BAD(h.syssize = 1, 1024 + 0x1000, "truncated");
	BAD(h.boot_flag = 0, 1024 + 0x1000, "broken header");
	BAD(h.version = 0x0204, 1024 + 0x1000, "without a 64-bit entry point (boot protocol 2.04)");
	BAD(h.xloadflags = 0, 1024 + 0x1000, "without a 64-bit entry point");
	BAD(h.loadflags = 0, 1024 + 0x1000, "without a 64-bit entry point");
	BAD(h.pref_address = 0, 1024 + 0x1000, "does not have");
	BAD(h.pref_address = UINT64_MAX, 1024 + 0x1000, "does not have");
	BAD(h.init_size = UINT32_MAX, 1024 + 0x1000, "does not have");
#undef BAD
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(loads_a_vmlinux),
		TEST(maps_the_padding_of_code),
		TEST(loads_a_vmlinux_without_sections),
		TEST(refuses_what_is_no_kernel),
		TEST(refuses_bad_elf_files),
		TEST(loads_a_bzimage),
		TEST(refuses_bad_bzimages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
