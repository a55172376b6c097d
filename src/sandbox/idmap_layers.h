/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an overlay that is mounted is made of, as mountinfo tells. */
#pragma once

#include "base/err.h"

#include <stddef.h>

#define LAYERS_MAX 500 /* the kernel's own limit */

struct layers {
	char *text; /* what the paths point into */
	const char *lower[LAYERS_MAX];
	size_t n_lower;
	const char *upper, *work; /* NULL: read-only */
	char extra[256];	  /* further options, separated by commas; never empty */
	char *base;		  /* where relative paths start; NULL: not known */
	char *below;		  /* where in the overlay the path leads: "" or "/..." */
};

/* layers_path() - the whole path of a layer, to be freed; NULL with err set where not known. */
char *layers_path(const struct layers *layers, const char *path, struct err *err);

/* layers_find() - the overlay that a path lies in. Returns 0, or -1 with err set. */
int layers_find(const char *path, struct layers *layers, struct err *err);
void layers_free(struct layers *layers);

/* layers_read() - the options of an overlay, as mountinfo writes them; text is taken. 0, or -1. */
int layers_read(struct layers *layers, char *text, struct err *err);
