/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network cards appear in places where the kernel found a device of type 0 when it booted
 * (vmm/vmm.h, VMM_NETS_MAX). Binding such a platform device to its driver makes it look again.
 * Where the kernel found it by ACPI, it has a name of ACPI's, and its number as the _UID.
 */
#include "guest/network.h"

#include "base/fd.h"
#include "base/file.h"
#include "net/network.h"
#include "net/netlink.h"
#include "vmm/vmm.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER	"/sys/bus/platform/drivers/virtio-mmio"
#define DEVICES "/sys/bus/platform/devices"
#define ACPI_ID "LNRO0005:"

/* The name of the first entry of a directory that starts with a prefix. Returns 0, or -1. */
static int find_entry(const char *path, const char *prefix, char *name, size_t size)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	int r = -1;

	if (!directory)
		return -1;
	while (r < 0 && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			r = snprintf(name, size, "%s", entry->d_name) < (int)size ? 0 : -1;
	closedir(directory);
	return r;
}

/* The platform device with that number. */
static void find_device(unsigned int number, char *name, size_t size)
{
	DIR *directory = opendir(DEVICES);
	const struct dirent *entry;

	snprintf(name, size, "virtio-mmio.%u", number);
	while (directory && (entry = readdir(directory))) {
		_cleanup_free_ char *uid = NULL;
		char path[320];

		if (strncmp(entry->d_name, ACPI_ID, strlen(ACPI_ID)) != 0)
			continue;
		snprintf(path, sizeof(path), DEVICES "/%s/firmware_node/uid", entry->d_name);
		uid = file_read(AT_FDCWD, path, 16, NULL, NULL);
		if (uid && strtoul(uid, NULL, 10) == number)
			snprintf(name, size, "%.30s", entry->d_name);
	}
	if (directory)
		closedir(directory);
}

/* Returns the index of the card in a place, or -1 with err set. */
static int find_card(unsigned int place, struct err *err)
{
	char device[32], path[128], virtio[32], name[IFNAMSIZ];
	unsigned int index;

	find_device(VMM_NET_ID + place, device, sizeof(device));
	if (file_write(AT_FDCWD, DRIVER "/bind", device, err) < 0)
		return err_wrap(err, "find network card %u", place);
	snprintf(path, sizeof(path), DEVICES "/%s", device);
	if (find_entry(path, "virtio", virtio, sizeof(virtio)) < 0)
		return err_set(err, errno, "find network card %u in %s", place, path);
	snprintf(path, sizeof(path), DEVICES "/%s/%s/net", device, virtio);
	if (find_entry(path, "", name, sizeof(name)) < 0)
		return err_set(err, errno, "find network card %u in %s", place, path);
	index = if_nametoindex(name);
	return index ? (int)index : err_set(err, errno, "find the network interface %s", name);
}

int guest_network_make(const Moat__Agent__Network *network, struct err *err)
{
	_cleanup_fd_ int link = netlink_open(NETLINK_ROUTE, err);
	int indexes[VMM_NETS_MAX];

	if (link < 0)
		return -1;
	if (network->n_interfaces > VMM_NETS_MAX)
		return err_set(err, EINVAL, "the request gives %zu network interfaces",
			       network->n_interfaces);
	for (unsigned int i = 0; i < network->n_interfaces; i++) {
		indexes[i] = find_card(i, err);
		if (indexes[i] < 0)
			return -1;
	}
	return network_apply(network, indexes, link, err);
}
