/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the guest's inotify learns of what the host does to shared files: fsd watches the directories
 * of which the guest knows, and the agent reads a file of fsd's top directory that no container
 * reaches. A read of it waits until there is something to tell. What it is told, the agent repeats
 * by system calls on the very names, so that the guest's kernel tells those who watch; fsd knows
 * these calls by their group and answers them without doing anything.
 */
#pragma once

#include <stdint.h>

#define CHANGES_NAME "changes" /* in the top directory; any change of it ends a read that waits */

/* What happened to a name since the last read; the order in which it is to be repeated. */
enum change_kind {
	CHANGE_GONE = 1 << 0, /* the file that had this name at the last read has it no more */
	CHANGE_MADE = 1 << 1, /* there is one that the guest does not know, of type `type` */
	CHANGE_CONTENT = 1 << 2,
	CHANGE_ATTRIBUTES = 1 << 3,
	CHANGE_CLOSED = 1 << 4, /* by one who may have written */
};

/* What a read gives is a row of these, each followed by a path below the top directory. */
struct change_record {
	uint16_t size; /* of this and the path with its NUL, a multiple of 4 */
	uint16_t kinds;
	uint32_t type; /* S_IFMT bits of what is there, or S_IFDIR for a directory that is gone */
};

/*
 * The group (fsgid) in which the reader of the file repeats: what there is, what is to be made,
 * what is to go, and directories that are to go, while they are looked up. Any other, and all
 * others' calls are ordinary ones.
 */
#define CHANGES_GID_PRESENT	   0x6d6f6174u
#define CHANGES_GID_MADE	   (CHANGES_GID_PRESENT + 1)
#define CHANGES_GID_GONE	   (CHANGES_GID_PRESENT + 2)
#define CHANGES_GID_GONE_DIRECTORY (CHANGES_GID_PRESENT + 3)
