/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of this folder share. */
#pragma once

#include "criu/criu.h"

/*
 * criu_reason() - the line of CRIU's log that tells why it failed, as far as one can be told.
 * @workdir: directory of the log.
 * @spoken: file with what CRIU wrote to its standard error, before it had a log.
 *
 * Returns a printable string that the caller frees, or NULL where neither says anything.
 */
char *criu_reason(int workdir, const char *log, int spoken);
