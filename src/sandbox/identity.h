/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of users and groups as the container's own /etc/passwd and /etc/group know them. Both are
 * the image's: their kind and size are checked, and what is malformed in them is passed over.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct identity {
	uint32_t uid, gid;
	uint32_t *groups; /* owned */
	size_t n_groups;
};

/*
 * identity_look_up() - "user", "uid", "user:group", in any mix of names and numbers.
 * Without a group it is the user's own, and those that the user is a member of come along; a
 * number that is not in the files needs no entry: its group is 0.
 * Returns 0, with identity->groups to be freed, or -1 with err set.
 */
int identity_look_up(int rootfd, const char *text, struct identity *identity, struct err *err);

/* identity_home() - home directory of a user, "/" where there is none; to be freed. */
char *identity_home(int rootfd, uint32_t uid);
