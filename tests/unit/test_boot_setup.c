/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a kernel finds beside itself: zero page, memory map, MP table, ACPI tables, CPUID. */
#include "base/fd.h"
#include "base/mem.h"
#include "vmm/vmm.h"
#include "vmm/x86/x86.h"

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
	int memory_fd;
	struct x86_kernel kernel;
	struct err err;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->memory_fd = guest_memory_create(MEMORY, &f->err);
	*state = f;
	return f->memory_fd < 0 || guest_memory_map(&f->memory, f->memory_fd, MEMORY, &f->err) < 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	guest_memory_unmap(&f->memory);
	close(f->memory_fd);
	free(f);
	return 0;
}

static void describes_the_machine(void **state)
{
	struct fixture *f = *state;
	struct boot_params *params = guest_range(&f->memory, X86_ZERO_PAGE, sizeof(*params));
	_cleanup_fd_ int initrd = memfd_create("initrd", MFD_CLOEXEC);
	uint64_t at;

	assert_int_equal(write(initrd, "initramfs", 9), 9);
	f->kernel.end = LOAD_AT + PAGE;
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, initrd, "a b=c", 2, 0, &f->err), 0);
	assert_string_equal(guest_range(&f->memory, params->hdr.cmd_line_ptr, 6), "a b=c");
	at = params->hdr.ramdisk_image;
	assert_int_equal(at % PAGE, 0);
	assert_int_equal(params->hdr.ramdisk_size, 9);
	assert_memory_equal(guest_range(&f->memory, at, 9), "initramfs", 9);
	assert_int_equal(params->e820_entries, 3);
	assert_int_equal(params->e820_table[0].size, X86_MP_TABLE);
	assert_int_equal(params->e820_table[2].addr, X86_HIGH_MEMORY);
	assert_int_equal(params->e820_table[2].size, MEMORY - X86_HIGH_MEMORY);
}

static void refuses_what_does_not_fit(void **state)
{
	struct fixture *f = *state;
	_cleanup_fd_ int initrd = memfd_create("initrd", MFD_CLOEXEC);
	char cmdline[X86_CMDLINE_MAX + 1];

	memset(cmdline, 'x', X86_CMDLINE_MAX);
	cmdline[X86_CMDLINE_MAX] = '\0';
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, -1, cmdline, 1, 0, &f->err), -1);
	assert_non_null(strstr(f->err.text, "2048 characters"));
	cmdline[X86_CMDLINE_MAX - 1] = '\0';
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, -1, cmdline, 1, 0, &f->err), 0);
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, initrd, "", 1, 0, &f->err), -1);
	assert_non_null(strstr(f->err.text, "initramfs is empty"));
	f->kernel.end = MEMORY - PAGE;
	assert_int_equal(ftruncate(initrd, PAGE + 1), 0);
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, initrd, "", 1, 0, &f->err), -1);
	assert_non_null(strstr(f->err.text, "do not fit"));
	assert_int_equal(ftruncate(initrd, PAGE), 0);
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, initrd, "", 1, 0, &f->err), 0);
	assert_int_equal(ftruncate(initrd, MEMORY + PAGE), 0);
	assert_int_equal(x86_boot_setup(&f->memory, &f->kernel, initrd, "", 1, 0, &f->err), -1);
}

static void writes_the_mp_table(void **state)
{
	struct fixture *f = *state;
	const uint8_t *table = guest_range(&f->memory, X86_MP_TABLE, X86_MP_TABLE_SIZE);
	uint16_t length, entries;
	uint8_t sum = 0;

	assert_int_equal(x86_mptable_write(&f->memory, VMM_VCPUS_MAX, ~0u, &f->err), 0);
	for (unsigned int i = 0; i < 16; i++)
		sum = (uint8_t)(sum + table[i]);
	assert_int_equal(sum, 0);
	assert_memory_equal(table, "_MP_", 4);
	assert_memory_equal(table + 16, "PCMP", 4);
	memcpy(&length, table + 20, 2);
	memcpy(&entries, table + 16 + 34, 2);
	assert_int_equal(entries, VMM_VCPUS_MAX + 2 + 24 + 2);
	assert_int_equal(length, 44 + 20 * VMM_VCPUS_MAX + 8 * (2 + 24 + 2));
	for (unsigned int i = 0; i < length; i++)
		sum = (uint8_t)(sum + table[16 + i]);
	assert_int_equal(sum, 0);
	assert_int_equal(x86_mptable_write(&f->memory, 64, ~0u, &f->err), -1);
	/* Lines without a device are left out, but for the timer's. */
	assert_int_equal(x86_mptable_write(&f->memory, 1, 1u << 5 | 1u << 11, &f->err), 0);
	memcpy(&entries, table + 16 + 34, 2);
	assert_int_equal(entries, 1 + 2 + 3 + 2);
}

static uint8_t sum_of(const uint8_t *bytes, size_t size)
{
	uint8_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + bytes[i]);
	return sum;
}

/* A table by its address, whose sum is right and which lies in the range. */
static const uint8_t *acpi_table(const struct guest_memory *memory, uint64_t at, const char *name,
				 uint32_t length)
{
	const uint8_t *table = guest_range(memory, at, length);
	uint32_t its;

	assert_in_range(at, X86_ACPI, X86_ACPI + X86_ACPI_SIZE - length);
	assert_non_null(table);
	assert_memory_equal(table, name, 4);
	memcpy(&its, table + 4, 4);
	assert_int_equal(its, length);
	assert_int_equal(sum_of(table, length), 0);
	return table;
}

static void writes_acpi_tables(void **state)
{
	struct fixture *f = *state;
	const struct x86_device devices[] = { { 0xd0000000, 0x1000, 5, 0 },
					      { 0xd0001000, 0x1000, 6, 33 } };
	struct x86_device many[1000] = { 0 };
	const uint8_t *pointer, *xsdt, *dsdt;
	uint64_t at, tables[2];
	uint32_t base;

	assert_int_equal(x86_acpi_write(&f->memory, 3, devices, 2, &f->err), 0);
	pointer = guest_range(&f->memory, X86_ACPI, 36);
	assert_memory_equal(pointer, "RSD PTR ", 8);
	assert_int_equal(sum_of(pointer, 20), 0);
	assert_int_equal(sum_of(pointer, 36), 0);
	memcpy(&at, pointer + 24, 8);
	xsdt = acpi_table(&f->memory, at, "XSDT", 36 + 16);
	memcpy(tables, xsdt + 36, 16);
	acpi_table(&f->memory, tables[1], "APIC", 44 + 3 * 8 + 12);
	memcpy(&at, acpi_table(&f->memory, tables[0], "FACP", 276) + 140, 8);
	/* The second device: its number, where its registers are, its line. */
	dsdt = acpi_table(&f->memory, at, "DSDT", 36 + 8 + 2 * 61) + 36 + 8 + 61;
	assert_memory_equal(dsdt + 13, "LNRO0005", 9);
	assert_int_equal(dsdt[28], 33);
	memcpy(&base, dsdt + 42, 4);
	assert_int_equal(base, 0xd0001000);
	assert_int_equal(dsdt[55], 6);
	assert_int_equal(x86_acpi_write(&f->memory, 3, many, 1000, &f->err), -1);
	assert_non_null(strstr(f->err.text, "do not fit"));
}

static const struct kvm_cpuid_entry2 *leaf(const struct kvm_cpuid2 *cpuid, uint32_t function,
					   uint32_t index)
{
	for (uint32_t i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function == function && cpuid->entries[i].index == index)
			return &cpuid->entries[i];
	return NULL;
}

static void edits_cpuid(void **state)
{
	_cleanup_free_ struct kvm_cpuid2 *cpuid = xcalloc(1, sizeof(*cpuid) + 256 * 40);
	const struct kvm_cpuid_entry2 host[] = {
		{ .function = 0, .ebx = 0x68747541, .edx = 0x69746e65, .ecx = 0x444d4163 },
		{ .function = 1, .ebx = 0xffffffff, .ecx = 0x8020, .edx = 0 },
		{ .function = 7, .ebx = 1 << 2, .edx = 1u << 29 },
		{ .function = 0xa, .eax = 1 },
		{ .function = 0xb, .ebx = 64 },
		{ .function = 0x80000001, .ecx = 1 << 2 },
		{ .function = 0x8000001d, .index = 3, .eax = 0x3c163 },
	};

	cpuid->nent = ARRAY_LEN(host);
	memcpy(cpuid->entries, host, sizeof(host));
	/* Edited for one vCPU after the other, as setup does. */
	for (unsigned int vcpu = 0; vcpu < 3; vcpu++)
		x86_cpuid_edit(cpuid, vcpu, 3);
	assert_int_equal(leaf(cpuid, 1, 0)->ebx, 0x0204ffff);
	assert_int_equal(leaf(cpuid, 1, 0)->ecx, 1u << 31 | 1 << 24);
	assert_int_equal(leaf(cpuid, 7, 0)->ebx, 0);
	assert_int_equal(leaf(cpuid, 7, 0)->edx, 0);
	assert_null(leaf(cpuid, 0xa, 0));
	assert_int_equal(leaf(cpuid, 0xb, 0)->ebx, 1);
	assert_int_equal(leaf(cpuid, 0xb, 1)->ebx, 3);
	assert_int_equal(leaf(cpuid, 0xb, 1)->eax, 2);
	assert_int_equal(leaf(cpuid, 0xb, 2)->edx, 2);
	assert_int_equal(leaf(cpuid, 0x80000001, 0)->ecx, 0);
	assert_int_equal(leaf(cpuid, 0x8000001d, 3)->eax >> 14, 3);
	assert_int_equal(cpuid->nent, ARRAY_LEN(host) - 2 + 3);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(describes_the_machine),   TEST(refuses_what_does_not_fit),
		TEST(writes_the_mp_table),     TEST(writes_acpi_tables),
		cmocka_unit_test(edits_cpuid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
