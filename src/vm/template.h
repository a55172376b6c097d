/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Templates on the host's side: where they are kept, which one is a machine's, and what names a
 * new one. What is in them is the vmm's (vmm/snapshot.h); it is given open files only.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct machine;
struct moat_settings;

struct template
{
	char *key; /* all that a machine's state at its first word depends on; NULL: no templates */
	size_t key_size;
	char name[20];
	int dir_fd;
	int use_fd;  /* one to start from, or -1 */
	int make_fd; /* else an unnamed file to make one in, or -1 */
};

#define TEMPLATE_NONE                                                                              \
	(struct template)                                                                          \
	{                                                                                          \
		.dir_fd = -1, .use_fd = -1, .make_fd = -1                                          \
	}

/* template_open() - the machine's, where it may have one; what fails is for the log of --debug. */
void template_open(struct template *template, const struct machine *machine);
void template_close(struct template *template);

/* template_discard() - the vmm could not use it: nobody is to try again. */
void template_discard(struct template *template);

/*
 * template_distrust() - a guest died before it had its container: the template that it started
 * from, if any, goes, since damage in a guest's memory shows in no other way. Returns whether one
 * did.
 */
bool template_distrust(const struct machine *machine);

/*
 * template_settle() - the vmm is ready: a template that it made gets its name, before the guest
 * hears of its container, and unless what it is made of was changed meanwhile; one that was used
 * becomes the youngest; the oldest ones go.
 */
void template_settle(struct template *template, const struct machine *machine);

/* template_count() - how many are kept, and their bytes. Returns 0, or -1 with err set. */
int template_count(const struct moat_settings *settings, size_t *count, unsigned long long *bytes,
		   struct err *err);
