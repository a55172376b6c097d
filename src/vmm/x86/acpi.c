/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ACPI tables (ACPI 6.5) for kernels of distributions, which know neither the MP table nor devices
 * on the command line: a machine of reduced hardware with its CPUs, one I/O APIC, and the virtio
 * devices as LNRO0005, the id that Linux's virtio-mmio driver looks for.
 */
#include "vmm/x86/x86.h"

#include "base/mem.h"

#include <stddef.h>
#include <string.h>

#define LOCAL_APIC   0xfee00000u
#define IO_APIC	     0xfec00000u
#define TABLES_ALIGN 16u

#define FADT_WBINVD	      (1u << 0)
#define FADT_REDUCED_HARDWARE (1u << 20)
#define FADT_NO_VGA	      (1u << 2) /* of the boot architecture flags, as the next */
#define FADT_NO_MSI	      (1u << 3)

struct acpi_pointer {
	char signature[8];
	uint8_t checksum;
	char oem[6];
	uint8_t revision;
	uint32_t rsdt, length;
	uint64_t xsdt;
	uint8_t extended_checksum, reserved[3];
} __attribute__((packed));

struct acpi_header {
	char signature[4];
	uint32_t length;
	uint8_t revision, checksum;
	char oem[6], table[8];
	uint32_t oem_revision;
	char creator[4];
	uint32_t creator_revision;
} __attribute__((packed));

/* The fields that a machine of reduced hardware has. */
struct acpi_fadt {
	struct acpi_header header;
	uint8_t unused1[109 - 36];
	uint16_t boot_architecture;
	uint8_t unused2;
	uint32_t flags;
	uint8_t unused3[131 - 116];
	uint8_t minor_revision;
	uint64_t facs, dsdt;
	uint8_t unused4[268 - 148];
	char hypervisor[8];
} __attribute__((packed));

struct acpi_madt {
	struct acpi_header header;
	uint32_t local_apic, flags;
} __attribute__((packed));

struct madt_processor {
	uint8_t type, length, uid, apic_id;
	uint32_t flags;
} __attribute__((packed));

struct madt_io_apic {
	uint8_t type, length, id, reserved;
	uint32_t address, first;
} __attribute__((packed));

struct acpi_xsdt {
	struct acpi_header header;
	uint64_t tables[2];
} __attribute__((packed));

_Static_assert(sizeof(struct acpi_pointer) == 36, "as the specification has it");
_Static_assert(sizeof(struct acpi_fadt) == 276, "as the specification has it");

struct writer {
	uint8_t *host;
	size_t used, size;
	bool full;
};

static void put(struct writer *writer, const void *data, size_t size)
{
	if (writer->size - writer->used < size) {
		writer->full = true;
		return;
	}
	memcpy(writer->host + writer->used, data, size);
	writer->used += size;
}

static struct acpi_header make_header(const char *signature, uint8_t revision)
{
	struct acpi_header header = { .revision = revision,
				      .oem = "MOAT  ",
				      .table = "MICROVM",
				      .oem_revision = 1,
				      .creator = "MOAT",
				      .creator_revision = 1 };

	memcpy(header.signature, signature, sizeof(header.signature));
	return header;
}

/* Fills in length and checksum of the table that began at start, and aligns the next. */
static uint64_t finish(struct writer *writer, size_t start)
{
	struct acpi_header header;

	if (writer->full)
		return 0;
	memcpy(&header, writer->host + start, sizeof(header));
	header.length = (uint32_t)(writer->used - start);
	memcpy(writer->host + start, &header, sizeof(header));
	header.checksum = x86_table_checksum(writer->host + start, header.length);
	memcpy(writer->host + start, &header, sizeof(header));
	writer->used = (writer->used + TABLES_ALIGN - 1) & ~(size_t)(TABLES_ALIGN - 1);
	if (writer->used > writer->size)
		writer->full = true;
	return X86_ACPI + start;
}

/* Device (VRxx) with its _HID, _UID and _CRS, in the byte code of 20.2. */
static void put_device(struct writer *writer, unsigned int index, const struct x86_device *device)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8_t code[] = { 0x5b, 0x82, 59, 'V', 'R', (uint8_t)digits[index / 16 % 16],
			   (uint8_t)digits[index % 16],
			   /* _HID */
			   0x08, '_', 'H', 'I', 'D', 0x0d, 'L', 'N', 'R', 'O', '0', '0', '0', '5',
			   0,
			   /* _UID */
			   0x08, '_', 'U', 'I', 'D', 0x0a, (uint8_t)device->id,
			   /* _CRS, a buffer of 23 bytes */
			   0x08, '_', 'C', 'R', 'S', 0x11, 26, 0x0a, 23,
			   /* Memory32Fixed, writable: its base and length */
			   0x86, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
			   /* Interrupt, consumed, edge, high: its number */
			   0x89, 6, 0, 3, 1, 0, 0, 0, 0,
			   /* the end */
			   0x79, 0 };
	uint32_t base = (uint32_t)device->base, size = (uint32_t)device->size;

	_Static_assert(sizeof(code) == 2 + 59, "the length that the code itself tells");
	memcpy(code + 42, &base, 4);
	memcpy(code + 46, &size, 4);
	memcpy(code + 55, &device->gsi, 4);
	put(writer, code, sizeof(code));
}

static uint64_t put_dsdt(struct writer *writer, const struct x86_device *devices,
			 unsigned int count)
{
	struct acpi_header header = make_header("DSDT", 2);
	uint32_t length = 2 + 5 + count * 61;
	size_t start = writer->used;
	/* Scope (\_SB), its length in two bytes. */
	uint8_t scope[] = {
		0x10, (uint8_t)(0x40 | (length & 0xf)), (uint8_t)(length >> 4), '\\', '_', 'S', 'B',
		'_'
	};

	put(writer, &header, sizeof(header));
	put(writer, scope, sizeof(scope));
	for (unsigned int i = 0; i < count; i++)
		put_device(writer, i, &devices[i]);
	return finish(writer, start);
}

static uint64_t put_fadt(struct writer *writer, uint64_t dsdt)
{
	struct acpi_fadt fadt = { .header = make_header("FACP", 6),
				  .boot_architecture = FADT_NO_VGA | FADT_NO_MSI,
				  .flags = FADT_WBINVD | FADT_REDUCED_HARDWARE,
				  .minor_revision = 5,
				  .dsdt = dsdt,
				  .hypervisor = "MOAT" };
	size_t start = writer->used;

	put(writer, &fadt, sizeof(fadt));
	return finish(writer, start);
}

static uint64_t put_madt(struct writer *writer, unsigned int vcpus)
{
	struct acpi_madt madt = { .header = make_header("APIC", 5), .local_apic = LOCAL_APIC };
	struct madt_io_apic io_apic = {
		.type = 1, .length = sizeof(io_apic), .id = (uint8_t)vcpus, .address = IO_APIC
	};
	size_t start = writer->used;

	put(writer, &madt, sizeof(madt));
	for (unsigned int i = 0; i < vcpus; i++) {
		struct madt_processor processor = { .length = sizeof(processor),
						    .uid = (uint8_t)i,
						    .apic_id = (uint8_t)i,
						    .flags = 1 };

		put(writer, &processor, sizeof(processor));
	}
	put(writer, &io_apic, sizeof(io_apic));
	return finish(writer, start);
}

int x86_acpi_write(const struct guest_memory *memory, unsigned int vcpus,
		   const struct x86_device *devices, unsigned int count, struct err *err)
{
	struct writer writer = { .host = guest_range(memory, X86_ACPI, X86_ACPI_SIZE),
				 .used = 48, /* behind the pointer */
				 .size = X86_ACPI_SIZE };
	struct acpi_pointer pointer = {
		.signature = "RSD PTR ", .oem = "MOAT  ", .revision = 2, .length = sizeof(pointer)
	};
	struct acpi_xsdt xsdt = { .header = make_header("XSDT", 1) };
	size_t start;

	if (!writer.host)
		return err_set(err, 0, "write ACPI tables: the machine has less than 1 MiB");
	xsdt.tables[0] = put_fadt(&writer, put_dsdt(&writer, devices, count));
	xsdt.tables[1] = put_madt(&writer, vcpus);
	start = writer.used;
	put(&writer, &xsdt, sizeof(xsdt));
	pointer.xsdt = finish(&writer, start);
	if (writer.full)
		return err_set(err, 0, "write ACPI tables: %u vCPUs and %u devices do not fit",
			       vcpus, count);
	pointer.checksum = x86_table_checksum(&pointer, offsetof(struct acpi_pointer, length));
	pointer.extended_checksum = x86_table_checksum(&pointer, sizeof(pointer));
	memcpy(writer.host, &pointer, sizeof(pointer));
	return 0;
}
