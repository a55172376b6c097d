/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "base/err.h"

/*
 * exec_wait() - until the process runs, or says at `sync` why it does not. In a frozen container
 * that may be never, so that a signal ends the wait; one that comes together with the answer is for
 * the process. @signals_fd: as in exec_options. 0, or -1 with err set (ERR_INTERRUPTED).
 */
int exec_wait(int sync, int signals_fd, struct err *err);
