/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options about images: what checkpoint and restore share. */
#include "cli/images.h"

#include "base/mem.h"
#include "base/str.h"

#include <sched.h>

struct images images = { .options = {
				 .path = "checkpoint", .fd = -1, .work_fd = -1, .status_fd = -1 } };

static const char *const cgroups_modes[] = {
	[IMAGE_CGROUPS_SOFT] = "soft",
	[IMAGE_CGROUPS_FULL] = "full",
	[IMAGE_CGROUPS_STRICT] = "strict",
	[IMAGE_CGROUPS_IGNORE] = "ignore",
};

/* ADDRESS:PORT; an address of IPv6 stands in brackets. */
static int read_page_server(struct err *err)
{
	const char *given = images.page_server, *colon = strrchr(given, ':');
	char *address;
	uint64_t port;
	size_t n;

	if (!colon || colon == given || str_to_u64(colon + 1, 65535, &port) < 0 || !port)
		return err_set(err, 0, "--page-server: expected ADDRESS:PORT, found '%.64s'",
			       given);
	address = xstrdup(given); /* lives as long as the command */
	n = (size_t)(colon - given);
	address[n] = '\0';
	if (address[0] == '[' && address[n - 1] == ']') {
		address[n - 1] = '\0';
		address++;
	}
	images.options.page_server = address;
	images.options.page_port = (int)port;
	return 0;
}

int images_prepare(struct err *err)
{
	for (size_t i = 0; images.cgroups_mode && i < ARRAY_LEN(cgroups_modes); i++)
		if (str_eq(cgroups_modes[i], images.cgroups_mode))
			images.options.cgroups = (enum image_cgroups)i;
	for (size_t i = 0; i < images.empty_namespaces.count; i++) {
		if (!str_eq(images.empty_namespaces.values[i], "network"))
			return err_set(err, 0, "--empty-ns: expected network, found '%.64s'",
				       images.empty_namespaces.values[i]);
		images.options.empty_namespaces |= CLONE_NEWNET;
	}
	return images.page_server ? read_page_server(err) : 0;
}
