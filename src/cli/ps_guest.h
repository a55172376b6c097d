/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of moat ps where the host's ps(1) cannot see the processes: those of a microVM. */
#pragma once

#include "base/err.h"
#include "oci/processes.h"

/*
 * ps_guest() - print them, on standard output.
 * @argc, @argv: options of ps(1): none, -e, -f, -A, ax, and -o LIST with names of columns.
 * Returns 0, or -1 with err set.
 */
int ps_guest(int argc, char **argv, const struct moat_processes *processes, struct err *err);
