/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The MP table (Intel, MultiProcessor Specification 1.4, chapter 4): CPUs, one I/O APIC, and its
 * inputs, each an edge-triggered line of an ISA bus. It spares the guest ACPI.
 */
#include "vmm/x86/x86.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

#define LOCAL_APIC   0xfee00000u
#define IO_APIC	     0xfec00000u
#define IO_APIC_PINS 24u
#define TIMER_LINE   0 /* kernels look for it, though there is no PIT */
#define APIC_VERSION 0x14u

enum entry_type { MP_PROCESSOR, MP_BUS, MP_IO_APIC, MP_INTERRUPT, MP_LOCAL_INTERRUPT };
enum interrupt_type { MP_INT, MP_NMI, MP_SMI, MP_EXTINT };
enum { MP_ENABLED = 1, MP_BOOT = 2, MP_ALL_APICS = 0xff };

struct mp_pointer {
	char signature[4];
	uint32_t table;
	uint8_t length, revision, checksum, features[5];
};

struct mp_header {
	char signature[4];
	uint16_t length;
	uint8_t revision, checksum;
	char oem[8], product[12];
	uint32_t oem_table;
	uint16_t oem_size, entries;
	uint32_t local_apic;
	uint16_t extended_length;
	uint8_t extended_checksum, reserved;
};

struct mp_processor {
	uint8_t type, apic_id, apic_version, flags;
	uint32_t signature, features, reserved[2];
};

struct mp_bus {
	uint8_t type, id;
	char name[6];
};

struct mp_io_apic {
	uint8_t type, id, version, flags;
	uint32_t address;
};

struct mp_interrupt {
	uint8_t type, interrupt_type;
	uint16_t flags; /* 0: polarity and trigger as the bus has them: ISA is high, edge */
	uint8_t source_bus, source_line, target_apic, target_pin;
};

struct table {
	uint8_t *at, *end;
	uint16_t entries;
};

static void add(struct table *table, const void *entry, size_t size)
{
	if ((size_t)(table->end - table->at) < size)
		return; /* x86_mptable_write() finds at == end and says so */
	memcpy(table->at, entry, size);
	table->at += size;
	table->entries++;
}

static void add_processors(struct table *table, unsigned int vcpus)
{
	for (unsigned int i = 0; i < vcpus; i++) {
		struct mp_processor processor = {
			.type = MP_PROCESSOR,
			.apic_id = (uint8_t)i,
			.apic_version = APIC_VERSION,
			.flags = (uint8_t)(MP_ENABLED | (i == 0 ? MP_BOOT : 0)),
			.signature = 0x600, /* family 6; the kernel asks CPUID */
			.features = 0x201,  /* FPU, APIC */
		};

		add(table, &processor, sizeof(processor));
	}
}

/* A line costs the kernel a descriptor, files in /proc and /sys, and exits to mask it. */
static void add_interrupts(struct table *table, uint8_t io_apic, uint32_t lines)
{
	struct mp_bus isa = { .type = MP_BUS, .id = 0, .name = "ISA   " };
	struct mp_io_apic apic = { .type = MP_IO_APIC,
				   .id = io_apic,
				   .version = APIC_VERSION,
				   .flags = MP_ENABLED,
				   .address = IO_APIC };
	struct mp_interrupt local = { .type = MP_LOCAL_INTERRUPT,
				      .interrupt_type = MP_EXTINT,
				      .target_apic = 0,
				      .target_pin = 0 };

	add(table, &isa, sizeof(isa));
	add(table, &apic, sizeof(apic));
	for (uint8_t line = 0; line < IO_APIC_PINS; line++) {
		struct mp_interrupt interrupt = { .type = MP_INTERRUPT,
						  .interrupt_type = MP_INT,
						  .source_line = line,
						  .target_apic = io_apic,
						  .target_pin = line };

		if (lines & 1u << line)
			add(table, &interrupt, sizeof(interrupt));
	}
	add(table, &local, sizeof(local));
	local.interrupt_type = MP_NMI;
	local.target_apic = MP_ALL_APICS;
	local.target_pin = 1;
	add(table, &local, sizeof(local));
}

int x86_mptable_write(const struct guest_memory *memory, unsigned int vcpus, uint32_t lines,
		      struct err *err)
{
	uint8_t *host = guest_range(memory, X86_MP_TABLE, X86_MP_TABLE_SIZE);
	struct mp_pointer pointer = {
		.signature = "_MP_",
		.table = (uint32_t)(X86_MP_TABLE + sizeof(pointer)),
		.length = sizeof(pointer) / 16,
		.revision = 4,
	};
	struct mp_header header = {
		.signature = "PCMP",
		.revision = 4,
		.oem = "MOAT    ",
		.product = "MICROVM     ",
		.local_apic = LOCAL_APIC,
	};
	unsigned int count;
	struct table table;
	uint8_t *start;

	if (!host)
		return err_set(err, 0, "write the MP table: the machine has less than 640 KiB");
	start = host + sizeof(pointer);
	table = (struct table){ .at = start + sizeof(header), .end = host + X86_MP_TABLE_SIZE };
	add_processors(&table, vcpus);
	lines = (lines | 1u << TIMER_LINE) & ((1u << IO_APIC_PINS) - 1);
	add_interrupts(&table, (uint8_t)vcpus, lines);
	count = (unsigned int)__builtin_popcount(lines);
	if (table.entries != vcpus + 2 + count + 2)
		return err_set(err, 0, "write the MP table: it has no room for %u vCPUs", vcpus);
	header.entries = table.entries;
	header.length = (uint16_t)(table.at - start);
	memcpy(start, &header, sizeof(header));
	header.checksum = x86_table_checksum(start, header.length);
	memcpy(start, &header, sizeof(header));
	pointer.checksum = x86_table_checksum(&pointer, sizeof(pointer));
	memcpy(host, &pointer, sizeof(pointer));
	return 0;
}
