/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * File system credentials of this thread, by the raw system calls: glibc's wrappers would change
 * every thread. A change of fsuid from 0 takes the file capabilities out of the effective set and
 * back to 0 puts them in again (capabilities(7)); in between CAP_DAC_OVERRIDE is raised by hand.
 */
#include "fs/creds.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void set_effective(const struct creds *creds, uint32_t mask)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { creds->caps[0],
									 creds->caps[1] };

	/* Cannot fail: a subset of what is permitted. */
	caps[0].effective = caps[0].permitted & mask;
	syscall(SYS_capset, &header, caps);
}

int creds_init(struct creds *creds)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	if (syscall(SYS_capget, &header, creds->caps) < 0)
		return -1;
	set_effective(creds, UINT32_MAX);
	creds->keep_bits = true;
	creds->umask = 0;
	umask(0);
	return 0;
}

void creds_keep_set_id(struct creds *creds, bool keep)
{
	if (creds->keep_bits == keep)
		return;
	creds->keep_bits = keep;
	set_effective(creds, keep ? UINT32_MAX : ~(uint32_t)(1u << CAP_FSETID));
}

void creds_umask(struct creds *creds, uint32_t mask)
{
	mask &= ACCESSPERMS;
	if (creds->umask != mask)
		umask(mask);
	creds->umask = mask;
}

/* setfsuid(2) and setfsgid(2) return the former id and no error: ask again to see. */
static int set_id(long call, uint32_t id)
{
	syscall(call, id);
	return (uint32_t)syscall(call, -1) == id ? 0 : -EPERM;
}

int creds_become(struct creds *creds, uint32_t uid, uint32_t gid)
{
	if (gid && set_id(SYS_setfsgid, gid) < 0)
		return -EPERM;
	if (!uid) {
		creds_keep_set_id(creds, true);
		return 0;
	}
	if (set_id(SYS_setfsuid, uid) < 0) {
		creds_restore(creds, uid, gid);
		return -EPERM;
	}
	/* Without CAP_FSETID: a set-group-id file of a group that is not the user's loses the
	 * bit, whatever the guest kernel let pass (CVE-2022-0358). */
	set_effective(creds, ~(uint32_t)(1u << CAP_FSETID));
	creds->keep_bits = false;
	return 0;
}

void creds_restore(struct creds *creds, uint32_t uid, uint32_t gid)
{
	if (gid)
		syscall(SYS_setfsgid, 0);
	if (!uid)
		return;
	syscall(SYS_setfsuid, 0);
	set_effective(creds, UINT32_MAX);
	creds->keep_bits = true;
}
