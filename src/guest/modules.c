/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A distribution's kernel has its drivers as modules: `moat kernel import` puts those that a guest
 * needs into the initramfs, in the order in which they are loaded. Our own kernel has none.
 */
#include "guest/boot.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIRECTORY "/modules/"
#define LIST_MAX  65536

static int load(const char *path, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		return err_set(err, errno, "load the kernel module %s", path);
	return 0;
}

void boot_modules(void)
{
	_cleanup_free_ char *list = file_read(AT_FDCWD, DIRECTORY "list", LIST_MAX, NULL, NULL);
	char *rest = list, *name, path[256];
	struct err err;

	while ((name = strsep(&rest, "\n"))) {
		if (!*name ||
		    snprintf(path, sizeof(path), DIRECTORY "%s", name) >= (int)sizeof(path))
			continue;
		/* Perhaps the guest can do without: what needs it says so. */
		if (load(path, &err) < 0)
			log_warning("%s", err.text);
		unlink(path); /* it is memory of the guest's */
	}
}
