/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What answers at an address: the virtio devices' pages, the console's ports, and as much of a
 * keyboard controller as it takes to reset the machine. All else reads as ones, as on a PC.
 */
#include "vmm/machine.h"

#include <string.h>

#define KEYBOARD_PORT	   0x64u
#define KEYBOARD_RESET	   0xfeu
#define KEYBOARD_ALL_INPUT 0x01u

/*
 * The keyboard controller's status: a byte to be read, always, and room for a command. A driver
 * that probes gives up at once on a controller whose buffer cannot be emptied, where it would wait
 * for half a second for one that is silent; one that wants to reset the machine finds it ready.
 */
static uint8_t port_read(struct vmm *vmm, uint16_t port)
{
	if (vmm->serial && port - SERIAL_PORT < SERIAL_PORTS)
		return serial_read(vmm->serial, port - SERIAL_PORT);
	return port == KEYBOARD_PORT ? KEYBOARD_ALL_INPUT : 0xff;
}

static bool port_write(struct vmm *vmm, uint16_t port, uint8_t value)
{
	if (vmm->serial && port - SERIAL_PORT < SERIAL_PORTS)
		serial_write(vmm->serial, port - SERIAL_PORT, value);
	return port != KEYBOARD_PORT || value != KEYBOARD_RESET;
}

bool machine_io(struct vmm *vmm, uint16_t port, uint8_t *data, uint32_t size, uint32_t count,
		bool write)
{
	bool go_on = true;

	/* No port here is wider than a byte; "rep outsb" comes as several values. */
	if (size != 1) {
		if (!write)
			memset(data, 0xff, (size_t)size * count);
		return true;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (write)
			go_on = port_write(vmm, port, data[i]) && go_on;
		else
			data[i] = port_read(vmm, port);
	}
	return go_on;
}

void machine_mmio(struct vmm *vmm, uint64_t address, uint8_t *data, uint32_t size, bool write)
{
	uint64_t offset = address - MMIO_BASE, index = offset / MMIO_SIZE;

	if (address < MMIO_BASE || index >= vmm->devices) {
		if (!write)
			memset(data, 0xff, size);
		return;
	}
	if (write)
		mmio_write(&vmm->mmio[index], offset % MMIO_SIZE, data, size);
	else
		mmio_read(&vmm->mmio[index], offset % MMIO_SIZE, data, size);
}
