/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loads the filters that the build has made (filter_generate.c) from filter_rules.c. */
#include "vm/jail.h"

#include "base/mem.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter_programs.h"

#define PROGRAM(name)                                                                              \
	{                                                                                          \
		.len = ARRAY_LEN(name##_program), .filter = (struct sock_filter *)name##_program   \
	}

static const struct sock_fprog programs[ROLES] = {
	[ROLE_MONITOR] = PROGRAM(monitor), [ROLE_VMM] = PROGRAM(vmm),
	[ROLE_FSD] = PROGRAM(fsd),	   [ROLE_DISKD] = PROGRAM(diskd),
	[ROLE_STANDIN] = PROGRAM(standin), [ROLE_VICTIM] = PROGRAM(victim),
};

#if defined(__SANITIZE_ADDRESS__)
#define ENFORCED false /* the sanitizers' own calls are many and change */
#else
#define ENFORCED true
#endif

int filter_load(enum role role, struct err *err)
{
	long r = 0;

	if (ENFORCED)
		r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			    &programs[role]);
	if (r != 0) /* above 0: a thread that has another filter */
		return err_set(err, r < 0 ? errno : EBUSY, "load the system call filter of the %s",
			       role_names[role]);
	return 0;
}
