/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As whom the server touches files: itself (uid 0 with its few capabilities), or the guest's user
 * where something is created, so that the host gives it the right owner. Changes are lazy: one
 * that is already in force costs no system call.
 */
#pragma once

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct creds {
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3]; /* as at creds_init() */
	bool keep_bits; /* CAP_FSETID is in force: writes leave set-id bits alone */
	mode_t umask;
};

/* creds_init() - note what this thread may do. Returns 0, or -1 with errno set. */
int creds_init(struct creds *creds);

/*
 * creds_keep_set_id() - whether what follows keeps set-user-id and set-group-id bits where the
 * kernel takes them from one without CAP_FSETID (writes, truncation, new files with those bits).
 */
void creds_keep_set_id(struct creds *creds, bool keep);

/* creds_umask() - the guest process's umask; a default ACL on the host comes before it. */
void creds_umask(struct creds *creds, uint32_t mask);

/*
 * creds_become() - create as this user. File permissions are the guest kernel's to check: the
 * capability to pass them stays. Returns 0, or -EPERM where the host does not let us.
 */
int creds_become(struct creds *creds, uint32_t uid, uint32_t gid);
/* creds_restore() - be oneself again. */
void creds_restore(struct creds *creds, uint32_t uid, uint32_t gid);
