/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guards the program file against the containers it makes: a process inside one can open
 * /proc/self/exe of a process that is entering it and, once that has ended, write to the file in
 * the host (CVE-2019-5736).
 */
#pragma once

#include "base/err.h"

/*
 * self_protect() - run this program again from a copy that nobody can write to: its own file
 * behind a detached read-only mount, or, where such a mount cannot be made, a sealed memfd.
 *
 * To be called first thing by what makes or enters containers of the host. Returns 0 at once where
 * the file is already out of reach, else does not return; -1 with err set if it cannot be done.
 */
int self_protect(char **argv, struct err *err);
