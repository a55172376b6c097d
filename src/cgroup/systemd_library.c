/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loading libsystemd. */
#include "cgroup/systemd_library.h"

#include <dlfcn.h>
#include <stdbool.h>

#define NAME "libsystemd.so.0"

const struct systemd_library *systemd_library(struct err *err)
{
	static struct systemd_library library;
	static bool known;
	void *handle;

	if (known)
		return &library;
	handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		err_set(err, 0, "use the systemd cgroup driver: cannot load " NAME ": %s",
			dlerror());
		return err_hint(err, "install it (Debian: apt-get install libsystemd0), or use the "
				     "cgroupfs driver"),
		       NULL;
	}
#define SYSTEMD_LOAD(name)                                                                         \
	library.name = (__typeof__(&name))dlsym(handle, #name);                                    \
	if (!library.name)                                                                         \
		return err_set(err, 0, "use the systemd cgroup driver: " NAME " has no " #name),   \
		       NULL;
	SYSTEMD_FUNCTIONS(SYSTEMD_LOAD)
#undef SYSTEMD_LOAD
	known = true;
	return &library;
}
