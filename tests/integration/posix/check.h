/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the checks of file system behaviour share. A check prints one line, "GROUP.NAME: OUTCOME",
 * that is the same wherever the file system behaves the same: no times, numbers of inodes or
 * descriptors, nor anything else that is chance. An error is an outcome, under its errno's name.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALICE 1000
#define BOB   1001
#define CREW  2000 /* a group that ALICE may have beside her own */

/* tell() - the outcome, as printf(3). Each name may be told once in a group. */
void tell(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* tell_call() - "ok", or errno's name where result is negative. Returns the result. */
long tell_call(const char *name, long result);
/* tell_number() - the result itself where it is not negative. */
long tell_number(const char *name, long result);
/* tell_text() - the first n bytes, or errno's name where n is negative. */
void tell_text(const char *name, const char *text, ssize_t n);
/* tell_mode() - type, permissions, owner and group of a path, which is not followed. */
void tell_mode(const char *name, const char *path);
/* tell_size() - size and whether the blocks are fewer than it needs. */
void tell_size(const char *name, const char *path);
/* tell_names() - what the directory holds, sorted. */
void tell_names(const char *name, const char *path);
/* tell_file() - up to 64 bytes of what the file holds. */
void tell_file(const char *name, const char *path);

/*
 * make() - a file of that content and mode, whatever the umask. make_dir() - a directory.
 * open_new() - a new file, open to read and write. They end the program where they fail: a check
 * that could not be prepared is none.
 */
void make(const char *path, const char *content, mode_t mode);
void make_dir(const char *path, mode_t mode);
int open_new(const char *path);

/*
 * as() - runs function in a child that is this user and group (and in CREW, if crew), without
 * capabilities. Lines that it tells are in their place.
 */
void as(uid_t uid, gid_t gid, bool crew, void (*function)(void));

/* Groups; each runs in an empty directory of its own, as root, with umask 022. */
void group_access(void);
void group_owners(void);
void group_set_id(void);
void group_links(void);
void group_renames(void);
void group_names(void);
void group_opening(void);
void group_unlinked(void);
void group_content(void);
void group_appending(void);
void group_sparse(void);
void group_allocation(void);
void group_copies(void);
void group_vectors(void);
void group_mapping(void);
void group_directories(void);
void group_locks(void);
void group_times(void);
void group_attributes(void);
void group_acls(void);
void group_special(void);
void group_watching(void);
void group_direct(void);
void group_together(void);
void group_limits(void);
