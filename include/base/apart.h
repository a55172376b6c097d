/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doing in a child what there is no way back from, such as entering a user namespace. */
#pragma once

#include "base/err.h"

/*
 * apart_run() - call a function in a child, and wait for its end. What it changes is the child's;
 * a child that this process leaves behind by dying goes on: see apart_bind().
 * @what: what it does, in the imperative, for the message where the child dies.
 * @run: 0, or -1 with err set.
 * @data: for run.
 * Returns what run did; -1 with err set where there was no child, or it died.
 */
int apart_run(const char *what, int (*run)(const void *data, struct err *err), const void *data,
	      struct err *err);

/*
 * apart_bind() - in such a child: die with the process that waits for it. To be called once the
 * child's ids and capabilities are what they will be, as changing them undoes it (prctl(2)).
 * Returns 0, or -1 with err set.
 */
int apart_bind(struct err *err);
